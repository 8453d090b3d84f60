"""All settings of the project, in one file.

It starts with zero environment (embedded: SQLite and a folder as broker) and runs in full when DATABASE_URL,
REDIS_URL and CELERY_BROKER_URL are set. Every variable is described in docs/reference/settings.md.
"""

import logging
import re
import secrets
from pathlib import Path
from urllib.parse import quote

from psycopg import IsolationLevel

from console.look import UNFOLD  # noqa: F401 - how the admin looks
from executions.database_line import Line
from jobs.addresses import network
from jobs.web_address import port_range
from scheduler_project import env

BASE_DIR = Path(__file__).resolve().parent.parent
ENVIRONMENT = env.Environment.of_process(BASE_DIR)

# ── Where things are ─────────────────────────────────────────────────────────────────────────────────────────────
DATA_DIR = Path(ENVIRONMENT.text("DATA_DIR", str(BASE_DIR / "var"))).expanduser().resolve()
DATABASE_URL = ENVIRONMENT.text("DATABASE_URL", f"sqlite://{quote(str(DATA_DIR))}/onbeat.sqlite3")
REDIS_URL = ENVIRONMENT.text("REDIS_URL")
CELERY_BROKER_URL = ENVIRONMENT.text("CELERY_BROKER_URL", f"folder://{quote(str(DATA_DIR))}/broker")

if REDIS_URL:
    env.address("REDIS_URL", REDIS_URL, ("redis", "rediss", "unix"))
IS_FOLDER_BROKER = env.address("CELERY_BROKER_URL", CELERY_BROKER_URL, ("amqp", "amqps", "folder")).scheme == "folder"

# ── Django ───────────────────────────────────────────────────────────────────────────────────────────────────────
DEBUG = ENVIRONMENT.flag("DEBUG", default=False)
ALLOWED_HOSTS = ENVIRONMENT.words(
    "ALLOWED_HOSTS",
    ["localhost", "127.0.0.1", "[::1]"],
    each=env.host_name,
    allowed="names such as onbeat.example.org, without https:// and port, separated by commas",
)
CSRF_TRUSTED_ORIGINS = ENVIRONMENT.words("CSRF_TRUSTED_ORIGINS", [])

# A key of its own for every installation: from the environment, or the file that `./onbeat run` makes once. Without
# either (a command, a test) one that lives as long as the process; scheduler_project.E001 refuses that in full.
_secret_key_file = DATA_DIR / "secret_key"
SECRET_KEY_IS_KEPT = bool(ENVIRONMENT.text("SECRET_KEY")) or _secret_key_file.is_file()
SECRET_KEY = ENVIRONMENT.text("SECRET_KEY") or (
    _secret_key_file.read_text(encoding="ascii").strip() if SECRET_KEY_IS_KEPT else secrets.token_urlsafe(48)
)

INSTALLED_APPS = [
    "scheduler_project.apps.SchedulerProjectConfig",
    "executions.apps.ExecutionsConfig",
    "jobs.apps.JobsConfig",
    "beat.apps.BeatConfig",
    "workers.apps.WorkersConfig",
    "callbacks.apps.CallbacksConfig",
    "notifications.apps.NotificationsConfig",
    "access.apps.AccessConfig",
    "api.apps.ApiConfig",
    "terminal.apps.TerminalConfig",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_results",
    "unfold.apps.BasicAppConfig",
    "console.apps.RoomConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "console.apps.ConsoleConfig",  # last: it gives pages of its own to what others registered with the admin
]
MIDDLEWARE = [
    "executions.request_ids.RequestIds",
    "scheduler_project.probes.by_any_name",
    "scheduler_project.content_policy.told",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
LOGIN_REDIRECT_URL = "admin:index"
ROOT_URLCONF = "scheduler_project.urls"
WSGI_APPLICATION = "scheduler_project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASE_ANSWER_SECONDS = ENVIRONMENT.seconds("DATABASE_ANSWER_SECONDS", 30)
DATABASE_PREPARES = ENVIRONMENT.flag("DATABASE_PREPARES", default=True)
DATABASES = {"default": env.database("DATABASE_URL", DATABASE_URL)}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    env.make_folder(Path(str(DATABASES["default"]["NAME"])).parent)
    DATABASES["default"]["OPTIONS"] = {
        # A transaction that reads first and writes later would fail at once when another one wrote in between, however
        # long it is willing to wait: so each takes the write lock when it begins.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    }
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"]["OPTIONS"] = {
        # Limits are counted under a lock, by a statement that must see what was committed before it.
        "isolation_level": IsolationLevel.READ_COMMITTED,
        "pool": {
            "min_size": 1,
            "max_size": ENVIRONMENT.integer("DATABASE_POOL_SIZE", 8, at_least=5),
            "timeout": 10,
            # Not longer: after a long outage the pool would come back minutes after the database.
            "reconnect_timeout": 4,
            "connection_class": Line,
        },
        "connect_timeout": 5,
        # A host that vanished without a word is noticed within half a minute, and not after hours. For one that takes
        # questions and never answers them there is `DATABASE_ANSWER_SECONDS`.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
        "application_name": "onbeat",
        **DATABASES["default"]["OPTIONS"],  # what the address itself asks for
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = ["scheduler_project.formats"]
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True  # serves the apps' own files without a collectstatic step


_SIGNED = re.compile(r"(/completions/[^/]*/[^/]*/).*")


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Who is told "not ready" or to wait got an answer; it is no error of ours. Nobody reads a signed address here."""
    record.args = tuple(_SIGNED.sub(r"\1…", word) if isinstance(word, str) else word for word in record.args or ())
    return getattr(record, "status_code", None) not in (429, 503)


ONBEAT_EXECUTIONS_LOG_FORMAT = ENVIRONMENT.one_of("ONBEAT_EXECUTIONS_LOG_FORMAT", "auto", ("auto", "text", "json"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"worth_a_line": {"()": "django.utils.log.CallbackFilter", "callback": _is_worth_a_line}},
    "formatters": {"lines": {"()": "executions.log_lines.formatter", "kind": ONBEAT_EXECUTIONS_LOG_FORMAT}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "lines"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "django.request": {"filters": ["worth_a_line"]},
        # Our own events tell of every run; Celery would say the same twice more.
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "ERROR"},
        # While PostgreSQL is away the pool complains at every try; our own line says it once.
        "psycopg.pool": {"level": "ERROR"},
    },
}

# ── Celery ───────────────────────────────────────────────────────────────────────────────────────────────────────
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_DEFAULT_DELIVERY_MODE = "persistent"
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_RESULT_BACKEND = "django-db"  # for plain tasks; an execution's own row holds its outcome
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker waits for its broker for as long as it takes
# A broker that is silent for twice as long is gone: with Celery's and RabbitMQ's own values that takes two minutes.
CELERY_BROKER_HEARTBEAT = ENVIRONMENT.integer("CELERY_BROKER_HEARTBEAT", 15, at_least=1, at_most=3600)
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_CONTROL_QUEUE_EXCLUSIVE = True  # RabbitMQ ≥ 4.3 denies the transient queues that Celery makes by default
CELERY_EVENT_QUEUE_EXCLUSIVE = True
CELERY_WORKER_ENABLE_REMOTE_CONTROL = not IS_FOLDER_BROKER  # the folder broker has no fanout
if not IS_FOLDER_BROKER:
    CELERY_BROKER_TRANSPORT_OPTIONS = {"confirm_publish": True}  # a plain `.delay()` returns when the broker has it

# A plain `.delay()`, and a worker that names no queue, use ours and not `celery`, which may be somebody else's.
CELERY_TASK_DEFAULT_QUEUE = f"{ENVIRONMENT.text('ONBEAT_EXECUTIONS_PREFIX', 'onbeat.')}default"

# ── executions ───────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_EXECUTIONS_PREFIX = ENVIRONMENT.text("ONBEAT_EXECUTIONS_PREFIX", "onbeat.")
ONBEAT_EXECUTIONS_QUEUE_TYPE = ENVIRONMENT.one_of("ONBEAT_EXECUTIONS_QUEUE_TYPE", "classic", ("classic", "quorum"))
ONBEAT_EXECUTIONS_CONFIRM_SECONDS = ENVIRONMENT.seconds("ONBEAT_EXECUTIONS_CONFIRM_SECONDS", 10)
ONBEAT_EXECUTIONS_RESULT_BYTES = ENVIRONMENT.integer("ONBEAT_EXECUTIONS_RESULT_BYTES", 64 * 1024, at_least=256)
# Two days at least: the statistics look back for one.
ONBEAT_EXECUTIONS_RETENTION_DAYS = ENVIRONMENT.integer(
    "ONBEAT_EXECUTIONS_RETENTION_DAYS", 30, at_least=2, at_most=36_600
)
ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS = ENVIRONMENT.integer(
    "ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS", 90, at_least=2, at_most=36_600
)
ONBEAT_EXECUTIONS_STATISTICS_DAYS = ENVIRONMENT.integer(
    "ONBEAT_EXECUTIONS_STATISTICS_DAYS", 365, at_least=2, at_most=36_600
)
# Optional: with it the doctor sees all queues and the alarms of the nodes, and not only what can be asked for by name.
ONBEAT_EXECUTIONS_RABBITMQ_API_URL = ENVIRONMENT.text("ONBEAT_EXECUTIONS_RABBITMQ_API_URL").rstrip("/")
if ONBEAT_EXECUTIONS_RABBITMQ_API_URL:
    env.address("ONBEAT_EXECUTIONS_RABBITMQ_API_URL", ONBEAT_EXECUTIONS_RABBITMQ_API_URL, ("https", "http"))

# Whoever scrapes sends it, if there is one.
ONBEAT_EXECUTIONS_METRICS_TOKEN = ENVIRONMENT.secret("ONBEAT_EXECUTIONS_METRICS_TOKEN", at_least=16)

# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_JOBS_ALLOWED_TASKS = ENVIRONMENT.words("ONBEAT_JOBS_ALLOWED_TASKS", ["*"])
ONBEAT_JOBS_HORIZON_DAYS = ENVIRONMENT.integer("ONBEAT_JOBS_HORIZON_DAYS", 3660, at_least=1, at_most=36_600)
ONBEAT_JOBS_SYNC_AT_START = ENVIRONMENT.flag("ONBEAT_JOBS_SYNC_AT_START", default=False)
ONBEAT_JOBS_PAYLOAD_BYTES = ENVIRONMENT.integer("ONBEAT_JOBS_PAYLOAD_BYTES", 64 * 1024, at_least=2)

# ── beat ─────────────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_BEAT_LOOK_AHEAD_SECONDS = ENVIRONMENT.seconds("ONBEAT_BEAT_LOOK_AHEAD_SECONDS", 5)
ONBEAT_BEAT_POLL_SECONDS = ENVIRONMENT.seconds("ONBEAT_BEAT_POLL_SECONDS", 1)
ONBEAT_BEAT_LEASE_SECONDS = ENVIRONMENT.seconds("ONBEAT_BEAT_LEASE_SECONDS", 15)
ONBEAT_BEAT_BATCH_SIZE = ENVIRONMENT.integer("ONBEAT_BEAT_BATCH_SIZE", 1000, at_least=1, at_most=10_000)
ONBEAT_BEAT_STUCK_AFTER_SECONDS = ENVIRONMENT.seconds("ONBEAT_BEAT_STUCK_AFTER_SECONDS", 5)
ONBEAT_BEAT_CLOCK_OFFSET_SECONDS = ENVIRONMENT.seconds("ONBEAT_BEAT_CLOCK_OFFSET_SECONDS", 30)
ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS = ENVIRONMENT.seconds("ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS", 60)
ONBEAT_BEAT_SILENT_AFTER_SECONDS = ENVIRONMENT.seconds("ONBEAT_BEAT_SILENT_AFTER_SECONDS", 10)
ONBEAT_BEAT_METRICS_ADDRESS = ENVIRONMENT.ports("ONBEAT_BEAT_METRICS_ADDRESS")

# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_WORKERS_HEARTBEAT_SECONDS = ENVIRONMENT.seconds("ONBEAT_WORKERS_HEARTBEAT_SECONDS", 5)
ONBEAT_WORKERS_LOST_AFTER_SECONDS = ENVIRONMENT.seconds("ONBEAT_WORKERS_LOST_AFTER_SECONDS", 20)
ONBEAT_WORKERS_TIMEOUT_SECONDS = ENVIRONMENT.seconds("ONBEAT_WORKERS_TIMEOUT_SECONDS", 3600)
ONBEAT_WORKERS_METRICS_ADDRESS = ENVIRONMENT.ports("ONBEAT_WORKERS_METRICS_ADDRESS")

# ── callbacks ────────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_CALLBACKS_NETWORKS = ENVIRONMENT.words(
    "ONBEAT_CALLBACKS_NETWORKS", [], each=network, allowed="networks such as 10.20.0.0/16, separated by commas"
)
ONBEAT_CALLBACKS_PORTS = ENVIRONMENT.words(
    "ONBEAT_CALLBACKS_PORTS", ["80", "443"], each=port_range, allowed="ports and ranges such as 443,8000-8999"
)
ONBEAT_CALLBACKS_PER_HOST = ENVIRONMENT.integer("ONBEAT_CALLBACKS_PER_HOST", 8, at_least=1)
ONBEAT_CALLBACKS_RETRY_AFTER_SECONDS = ENVIRONMENT.seconds("ONBEAT_CALLBACKS_RETRY_AFTER_SECONDS", 3600)
ONBEAT_CALLBACKS_CA_FILE = ENVIRONMENT.file("ONBEAT_CALLBACKS_CA_FILE")
ONBEAT_CALLBACKS_URL = ENVIRONMENT.text("ONBEAT_CALLBACKS_URL").rstrip("/")
if ONBEAT_CALLBACKS_URL:
    env.address("ONBEAT_CALLBACKS_URL", ONBEAT_CALLBACKS_URL, ("https", "http"))
# Whoever knows one of these can read the stored secrets. The first seals, each one opens.
ONBEAT_CALLBACKS_SECRET_KEYS = ENVIRONMENT.secrets("ONBEAT_CALLBACKS_SECRET_KEYS", at_least=32)

# ── notifications ────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_NOTIFICATIONS_REPEAT_SECONDS = ENVIRONMENT.seconds("ONBEAT_NOTIFICATIONS_REPEAT_SECONDS", 3600)

# ── access ───────────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_ACCESS_AUDIT_DAYS = ENVIRONMENT.integer("ONBEAT_ACCESS_AUDIT_DAYS", 365, at_least=1, at_most=36_600)

# ── api ──────────────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_API_REQUESTS_PER_MINUTE = ENVIRONMENT.integer("ONBEAT_API_REQUESTS_PER_MINUTE", 600, at_least=0)
ONBEAT_API_BODY_BYTES = ENVIRONMENT.integer("ONBEAT_API_BODY_BYTES", 10 * 1024 * 1024, at_least=1024)
ONBEAT_API_PROXIES = ENVIRONMENT.integer("ONBEAT_API_PROXIES", 0, at_least=0, at_most=10)
DATA_UPLOAD_MAX_MEMORY_SIZE = ONBEAT_API_BODY_BYTES
REST_FRAMEWORK = {
    # Who may call, and how, is said by `api.views.ApiView`; the pages of the documentation are for everybody.
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "api.problems.answer",
    "NUM_PROXIES": ONBEAT_API_PROXIES,
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Onbeat",
    "DESCRIPTION": (
        "Jobs, their runs and executions. Press Authorize and paste an API key (`./onbeat api_keys create` makes one), "
        "or log in to the [admin](/admin/). What is wrong with a request is answered as problem+json, with the places "
        "to correct. How to do the main tasks with curl: `docs/how-to/use-the-api.md`."
    ),
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "persistAuthorization": True,
        "displayRequestDuration": True,
        "validatorUrl": None,  # else the page would ask somebody elsewhere whether the schema is valid
    },
    "COMPONENT_SPLIT_REQUEST": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SORT_OPERATIONS": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": ["api.schema.close_bodies"],
}

# ── console ──────────────────────────────────────────────────────────────────────────────────────────────────────
ONBEAT_CONSOLE_LABEL = ENVIRONMENT.text("ONBEAT_CONSOLE_LABEL")
ONBEAT_CONSOLE_FLOWER_URL = ENVIRONMENT.text("ONBEAT_CONSOLE_FLOWER_URL").rstrip("/")
if ONBEAT_CONSOLE_FLOWER_URL:
    env.address("ONBEAT_CONSOLE_FLOWER_URL", ONBEAT_CONSOLE_FLOWER_URL, ("https", "http"))
ONBEAT_CONSOLE_SESSION_HOURS = ENVIRONMENT.integer("ONBEAT_CONSOLE_SESSION_HOURS", 12, at_least=1, at_most=8760)

# ── How people reach the web process ─────────────────────────────────────────────────────────────────────────────
# Whoever names a host of others than this machine is in earnest: then nothing goes over a line that others can read.
IS_FOR_OTHERS = not all(env.is_this_machine(host) for host in ALLOWED_HOSTS)
HTTPS_ONLY = ENVIRONMENT.flag("HTTPS_ONLY", default=IS_FOR_OTHERS)
HSTS_DAYS = ENVIRONMENT.integer("HSTS_DAYS", 365, at_most=3650)
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS_ONLY
SECURE_HSTS_SECONDS = HSTS_DAYS * 24 * 3600 if HTTPS_ONLY else 0
SECURE_REDIRECT_EXEMPT = [r"^health/", r"^metrics$"]  # neighbours ask for these, in plain http
if ONBEAT_API_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_AGE = ONBEAT_CONSOLE_SESSION_HOURS * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"  # who follows a link from a message stays logged in
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# That all hosts below ours, and the domain in the lists of browsers, keep to HTTPS is not ours to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# Variables that the launcher reads and the settings do not.
ENVIRONMENT.asked_for.update({"ONBEAT_ENV_FILE", "ONBEAT_ADMIN_PASSWORD"})
