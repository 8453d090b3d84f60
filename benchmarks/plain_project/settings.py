"""The peers' settings. Where they run and what becomes of results, `benchmarks/plain_worker.py` tells them.

What matters for speed is as it is in ours: late acknowledgements, and one message at a time for each process.
"""

import os

from benchmarks import peer_database
from benchmarks.plain_project import queues

_PREFIX = os.environ["PEER_PREFIX"]
_KEEPS_RESULTS = bool(os.environ.get("PEER_KEEPS_RESULTS"))

SECRET_KEY = "only for a benchmark"
INSTALLED_APPS = ["django_celery_results"]
DATABASES = {
    "default": peer_database.from_url(
        os.environ["DATABASE_URL"], keeps_connection=bool(os.environ.get("PEER_KEEPS_CONNECTION"))
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

CELERY_BROKER_URL = os.environ["CELERY_BROKER_URL"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_HEARTBEAT = 15
CELERY_CONTROL_QUEUE_EXCLUSIVE = True  # RabbitMQ ≥ 4.3 denies the transient queues that Celery makes by default
CELERY_EVENT_QUEUE_EXCLUSIVE = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_QUEUES = [queues.work_queue(_PREFIX)]
CELERY_TASK_DEFAULT_QUEUE = _PREFIX + queues.WORK
CELERY_TASK_DEFAULT_PRIORITY = 5
CELERY_TASK_IGNORE_RESULT = not _KEEPS_RESULTS
if _KEEPS_RESULTS:
    CELERY_RESULT_BACKEND = "django-db"
