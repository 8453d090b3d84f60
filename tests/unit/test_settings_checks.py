"""System checks: dangerous settings have an id, the defaults raise none."""

import runpy
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.conf import settings as project_settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from beat.checks import fires_are_seen_in_time, one_beat_fires
from executions.checks import (
    broker_and_database_go_together,
    dead_letters_are_kept_longest,
    plain_tasks_are_confirmed,
    quorum_queues_have_a_broker,
)
from scheduler_project.checks import full_is_safe, others_are_let_in, others_are_safe, variables_are_known
from scheduler_project.env import Environment
from workers.checks import (
    living_workers_are_not_rescued,
    messages_outlive_their_worker,
    plain_tasks_stay_with_us,
    pools_are_tried,
    results_and_limits_are_as_jobs_say,
    workers_read_what_is_written,
)

ALL = [
    broker_and_database_go_together,
    dead_letters_are_kept_longest,
    fires_are_seen_in_time,
    full_is_safe,
    living_workers_are_not_rescued,
    messages_outlive_their_worker,
    one_beat_fires,
    others_are_safe,
    plain_tasks_are_confirmed,
    plain_tasks_stay_with_us,
    pools_are_tried,
    quorum_queues_have_a_broker,
    results_and_limits_are_as_jobs_say,
    variables_are_known,
    workers_read_what_is_written,
]
# Celery's settings, each with what it must not be, and the id by which that is told.
OF_CELERY: list[tuple[Callable[[], list[checks.CheckMessage]], str, Any, list[str]]] = [
    (messages_outlive_their_worker, "task_acks_late", False, ["onbeat_workers.W001"]),
    (messages_outlive_their_worker, "task_reject_on_worker_lost", None, ["onbeat_workers.W002"]),
    (messages_outlive_their_worker, "worker_prefetch_multiplier", 4, ["onbeat_workers.W003"]),
    (workers_read_what_is_written, "accept_content", ["yaml"], ["onbeat_workers.E002", "onbeat_workers.W004"]),
    (workers_read_what_is_written, "accept_content", ["json", "pickle"], ["onbeat_workers.W004"]),
    (workers_read_what_is_written, "accept_content", ["application/json"], []),
    (workers_read_what_is_written, "task_serializer", "pickle", ["onbeat_workers.W004"]),
    (plain_tasks_stay_with_us, "task_default_queue", "celery", ["onbeat_workers.W005"]),
    (plain_tasks_stay_with_us, "task_routes", {"billing.*": {"queue": "billing"}}, ["onbeat_workers.W005"]),
    (plain_tasks_stay_with_us, "task_routes", {"billing.*": {"queue": "onbeat.billing"}}, []),
    (plain_tasks_stay_with_us, "broker_pool_limit", 0, ["onbeat_workers.W006"]),
    (plain_tasks_stay_with_us, "broker_pool_limit", None, ["onbeat_workers.W006"]),
    (pools_are_tried, "worker_pool", "gevent", ["onbeat_workers.E003"]),
    (pools_are_tried, "worker_pool", "celery.concurrency.eventlet:TaskPool", ["onbeat_workers.E003"]),
    (pools_are_tried, "worker_pool", "threads", []),
    (results_and_limits_are_as_jobs_say, "result_backend", None, ["onbeat_workers.W007"]),
    (results_and_limits_are_as_jobs_say, "result_backend", "disabled://", ["onbeat_workers.W007"]),
    (results_and_limits_are_as_jobs_say, "task_time_limit", 3599, ["onbeat_workers.W008"]),
    (results_and_limits_are_as_jobs_say, "task_soft_time_limit", 60, ["onbeat_workers.W008"]),
    (results_and_limits_are_as_jobs_say, "task_time_limit", 3600, []),
    (one_beat_fires, "beat_schedule", {"nightly": {"task": "a", "schedule": 60}}, ["onbeat_beat.W002"]),
]
OTHERS = (
    "ALLOWED_HOSTS",
    "CELERY_BROKER_URL",
    "DEBUG",
    "ENVIRONMENT",
    "HTTPS_ONLY",
    "IS_FOR_OTHERS",
    "REDIS_URL",
)
LONG_KEY = "only-for-tests-and-known-to-everybody"
ENGINES = {"sqlite": "django.db.backends.sqlite3", "postgresql": "django.db.backends.postgresql"}


def ids(messages: list[checks.CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Pretend that the project is set up for a database; nothing connects to it."""

    def choose(vendor: str) -> None:
        monkeypatch.setitem(project_settings.DATABASES["default"], "ENGINE", ENGINES[vendor])

    return choose


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings as they are with nothing in the environment but a place for the files."""
    empty = Environment({"DATA_DIR": str(tmp_path)})
    monkeypatch.setattr(Environment, "of_process", lambda root: empty)
    return runpy.run_path(str(project_settings.BASE_DIR / "scheduler_project" / "settings.py"))


@pytest.mark.parametrize("check", ALL)
def test_the_defaults_raise_nothing(
    check: Callable[[], list[Any]], defaults: dict[str, Any], settings, database
) -> None:
    assert defaults["DATABASES"]["default"]["ENGINE"] == ENGINES["sqlite"]
    database("sqlite")
    for name, value in defaults.items():
        if name.startswith("ONBEAT_") or name in OTHERS:
            setattr(settings, name, value)
    assert check() == []


@pytest.mark.parametrize("check", ALL)
def test_each_check_runs_with_djangos_own(check: Callable[[], list[Any]]) -> None:
    assert check in checks.registry.registry.get_checks()


@pytest.mark.parametrize(
    ("vendor", "broker", "expected"),
    [
        ("sqlite", "folder:///srv/broker", []),
        ("postgresql", "amqp://rabbit//", []),
        ("postgresql", "amqps://rabbit//", []),
        ("postgresql", "folder:///srv/broker", ["onbeat_executions.W001"]),
        ("sqlite", "amqp://rabbit//", ["onbeat_executions.W002"]),
    ],
)
def test_broker_and_database_go_together(vendor: str, broker: str, expected: list[str], settings, database) -> None:
    database(vendor)
    settings.CELERY_BROKER_URL = broker
    assert ids(broker_and_database_go_together()) == expected


@pytest.mark.parametrize(
    ("queue_type", "broker", "expected"),
    [
        ("classic", "folder:///srv/broker", []),
        ("classic", "amqp://rabbit//", []),
        ("quorum", "amqp://rabbit//", []),
        ("quorum", "folder:///srv/broker", ["onbeat_executions.W004"]),
    ],
)
def test_quorum_queues_have_a_broker(queue_type: str, broker: str, expected: list[str], settings) -> None:
    settings.ONBEAT_EXECUTIONS_QUEUE_TYPE, settings.CELERY_BROKER_URL = queue_type, broker
    assert ids(quorum_queues_have_a_broker()) == expected


@pytest.mark.parametrize(
    ("look_ahead", "poll", "lease", "silent_after", "expected"),
    [
        (5, 1, 15, 10, []),
        (1.1, 1, 1.2, 1.1, []),
        (1, 1, 15, 10, ["onbeat_beat.E001"]),
        (0.5, 1, 15, 10, ["onbeat_beat.E001"]),
        (5, 1, 5, 10, ["onbeat_beat.W001"]),
        (5, 1, 15, 1, ["onbeat_beat.E002"]),
        (5, 5, 5, 5, ["onbeat_beat.E001", "onbeat_beat.W001", "onbeat_beat.E002"]),
    ],
)
def test_the_beat_sees_its_fires_in_time(
    look_ahead: float, poll: float, lease: float, silent_after: float, expected: list[str], settings
) -> None:
    settings.ONBEAT_BEAT_LOOK_AHEAD_SECONDS = look_ahead
    settings.ONBEAT_BEAT_POLL_SECONDS = poll
    settings.ONBEAT_BEAT_LEASE_SECONDS = lease
    settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS = silent_after
    assert ids(fires_are_seen_in_time()) == expected


@pytest.mark.parametrize(
    ("heartbeat", "lost_after", "expected"),
    [(5, 20, []), (5, 10, []), (5, 9.9, ["onbeat_workers.E001"]), (5, 1, ["onbeat_workers.E001"])],
)
def test_a_living_worker_is_not_rescued(heartbeat: float, lost_after: float, expected: list[str], settings) -> None:
    settings.ONBEAT_WORKERS_HEARTBEAT_SECONDS = heartbeat
    settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS = lost_after
    assert ids(living_workers_are_not_rescued()) == expected


@pytest.mark.parametrize(
    ("retention", "dead_letters", "expected"), [(30, 90, []), (30, 30, []), (30, 29, ["onbeat_executions.E002"])]
)
def test_dead_letters_are_kept_longest(retention: int, dead_letters: int, expected: list[str], settings) -> None:
    settings.ONBEAT_EXECUTIONS_RETENTION_DAYS = retention
    settings.ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS = dead_letters
    assert ids(dead_letters_are_kept_longest()) == expected


@pytest.mark.parametrize(("check", "name", "value", "expected"), OF_CELERY)
def test_a_setting_of_celery_that_bends_a_promise_is_told(
    check: Callable[[], list[checks.CheckMessage]],
    name: str,
    value: object,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(current_app.conf, name, value)
    assert ids(check()) == expected


@pytest.mark.parametrize(
    ("broker", "options", "expected"),
    [
        ("amqp://rabbit//", {"confirm_publish": True}, []),
        ("amqp://rabbit//", {}, ["onbeat_executions.W003"]),
        ("amqp://rabbit//", None, ["onbeat_executions.W003"]),
        ("folder:///srv/broker", {}, []),
    ],
)
def test_plain_tasks_are_confirmed_by_rabbitmq(
    broker: str, options: object, expected: list[str], settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CELERY_BROKER_URL = broker
    monkeypatch.setitem(current_app.conf, "broker_transport_options", options)
    assert ids(plain_tasks_are_confirmed()) == expected


@pytest.mark.parametrize(
    ("vendor", "is_kept", "debug", "redis", "expected"),
    [
        ("sqlite", False, True, "", []),
        ("postgresql", True, False, "redis://redis/0", []),
        ("postgresql", False, False, "redis://redis/0", ["scheduler_project.E001"]),
        ("postgresql", True, True, "redis://redis/0", ["scheduler_project.W001"]),
        ("postgresql", True, False, "", ["scheduler_project.W002"]),
        ("postgresql", False, True, "", [f"scheduler_project.{end}" for end in ("E001", "W001", "W002")]),
    ],
)
def test_what_is_fine_for_a_first_look_is_not_fine_with_postgresql(
    vendor: str, is_kept: bool, debug: bool, redis: str, expected: list[str], settings, database
) -> None:
    database(vendor)
    settings.SECRET_KEY_IS_KEPT = is_kept
    settings.SECRET_KEY = LONG_KEY
    settings.DEBUG = debug
    settings.REDIS_URL = redis
    assert ids(full_is_safe()) == expected


@pytest.mark.parametrize(
    ("key", "is_guessable"),
    [
        ("x" * 64, True),
        ("short-and-random-8fK2", True),
        (f"django-insecure-{LONG_KEY}", True),
        (f"Change-Me-{LONG_KEY}", True),
        (LONG_KEY, False),
        (secrets.token_urlsafe(24), False),
    ],
)
@pytest.mark.parametrize(("vendor", "is_for_others"), [("sqlite", True), ("postgresql", False), ("postgresql", True)])
def test_a_key_that_can_be_guessed_is_told_once_in_earnest(
    key: str, is_guessable: bool, vendor: str, is_for_others: bool, settings, database
) -> None:
    database(vendor)
    settings.SECRET_KEY, settings.IS_FOR_OTHERS, settings.HTTPS_ONLY = key, is_for_others, is_for_others
    settings.ONBEAT_API_PROXIES, settings.REDIS_URL = 1, "redis://redis/0"
    told = [*full_is_safe(), *others_are_safe()]
    assert ids(told) == ["scheduler_project.E003"] * is_guessable
    assert not any(key in f"{message.msg}{message.hint}" for message in told)


@pytest.mark.parametrize(
    ("hosts", "environment", "is_for_others", "is_https"),
    [
        (None, {}, False, False),
        ("localhost,onbeat.localhost,127.0.1.1,[::1]", {}, False, False),
        ("onbeat.example.org", {}, True, True),
        ("localhost,.example.org", {}, True, True),
        ("10.0.0.7", {}, True, True),
        ("*", {}, True, True),
        ("onbeat.lan", {"HTTPS_ONLY": "no"}, True, False),
        (None, {"HTTPS_ONLY": "yes"}, False, True),
    ],
)
def test_https_is_asked_for_as_soon_as_others_are_let_in(
    hosts: str | None,
    environment: dict[str, str],
    is_for_others: bool,
    is_https: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = Environment({"DATA_DIR": str(tmp_path), **environment} | ({"ALLOWED_HOSTS": hosts} if hosts else {}))
    monkeypatch.setattr(Environment, "of_process", lambda root: given)
    found = runpy.run_path(str(project_settings.BASE_DIR / "scheduler_project" / "settings.py"))
    assert (found["IS_FOR_OTHERS"], found["HTTPS_ONLY"]) == (is_for_others, is_https)
    names = ("SECURE_SSL_REDIRECT", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE")
    assert [found[name] for name in names] == [is_https] * 3
    assert bool(found["SECURE_HSTS_SECONDS"]) == is_https
    assert "SECURE_PROXY_SSL_HEADER" not in found  # for no proxy is declared


@pytest.mark.parametrize(
    ("hosts", "debug", "https", "proxies", "expected"),
    [
        (["onbeat.example.org"], False, True, 1, []),
        (["*"], False, True, 1, ["W003"]),
        (["onbeat.example.org"], False, False, 1, ["W004"]),
        (["onbeat.example.org"], False, True, 0, ["W005"]),
        (["onbeat.example.org"], True, True, 1, ["E004"]),
        (["onbeat.example.org", "*"], True, False, 0, ["E004", "W003", "W004"]),
    ],
)
def test_what_is_dangerous_where_others_are_let_in(
    hosts: list[str], debug: bool, https: bool, proxies: int, expected: list[str], settings, database
) -> None:
    database("sqlite")
    settings.IS_FOR_OTHERS, settings.ALLOWED_HOSTS, settings.SECRET_KEY = True, hosts, LONG_KEY
    settings.DEBUG, settings.HTTPS_ONLY, settings.ONBEAT_API_PROXIES = debug, https, proxies
    assert ids(others_are_safe()) == [f"scheduler_project.{end}" for end in expected]
    assert others_are_let_in() == []


def test_only_before_a_deploy_it_is_told_that_nobody_else_is_let_in(settings) -> None:
    settings.IS_FOR_OTHERS = False
    assert ids(others_are_let_in()) == ["scheduler_project.W006"]
    registry = checks.registry.registry
    assert others_are_let_in not in registry.get_checks()
    assert others_are_let_in in registry.get_checks(include_deployment_checks=True)


@pytest.mark.parametrize("is_for_others", [True, False])
def test_a_password_in_the_links_to_flower_is_an_error(is_for_others: bool, settings) -> None:
    settings.IS_FOR_OTHERS, settings.HTTPS_ONLY, settings.ONBEAT_API_PROXIES = is_for_others, True, 1
    settings.SECRET_KEY = LONG_KEY
    settings.ONBEAT_CONSOLE_FLOWER_URL = "https://onbeat:hush@flower.example.org"
    (error,) = others_are_safe()
    assert error.id == "scheduler_project.E005"
    assert "hush" not in f"{error.msg}{error.hint}"


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("ONBEAT_BEAT_POL_SECONDS", "Did you mean ONBEAT_BEAT_POLL_SECONDS?"),
        ("ONBEAT_QQQQ", "Remove it."),
    ],
)
def test_a_misspelt_variable_is_an_error_with_the_nearest_name(variable: str, hint: str, settings) -> None:
    settings.ENVIRONMENT = Environment({variable: "1", "ONBEAT_BEAT_POLL_SECONDS": "1", "HOME": "/root"})
    settings.ENVIRONMENT.seconds("ONBEAT_BEAT_POLL_SECONDS", 1)
    (error,) = variables_are_known()
    assert (error.id, error.msg, error.hint) == (
        "scheduler_project.E002",
        f"The variable {variable} is not known.",
        hint,
    )
    assert error.is_serious()


@pytest.mark.parametrize("variable", ["ONBEAT_ENV_FILE", "ONBEAT_ADMIN_PASSWORD"])
def test_the_variables_of_the_launcher_are_known(variable: str, defaults: dict[str, Any]) -> None:
    assert variable in defaults["ENVIRONMENT"].asked_for


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALLOWED_HOSTS", "https://onbeat.example.org"),
        ("ALLOWED_HOSTS", "localhost,onbeat.example.org:8000"),
        ("HSTS_DAYS", "4000"),
        ("HTTPS_ONLY", "perhaps"),
        ("ONBEAT_CALLBACKS_NETWORKS", "10.0.0.1/8"),
        ("ONBEAT_CALLBACKS_NETWORKS", "127.0.0.0/8,intranet"),
        ("ONBEAT_CALLBACKS_PORTS", "443,http"),
        ("ONBEAT_CALLBACKS_PORTS", "9000-8000"),
        ("ONBEAT_CALLBACKS_PER_HOST", "0"),
        ("ONBEAT_CALLBACKS_CA_FILE", "/nowhere/ca.pem"),
        ("ONBEAT_CALLBACKS_URL", "onbeat.example.org"),
        ("ONBEAT_CALLBACKS_SECRET_KEYS", "short"),
    ],
)
def test_settings_that_cannot_be_stop_the_start(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Environment({"DATA_DIR": str(tmp_path), name: value})
    monkeypatch.setattr(Environment, "of_process", lambda root: given)
    with pytest.raises(ImproperlyConfigured, match=f"^{name} must "):
        runpy.run_path(str(project_settings.BASE_DIR / "scheduler_project" / "settings.py"))
