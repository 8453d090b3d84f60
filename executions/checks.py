"""System checks of the executions app: dangerous combinations of settings, each with an id."""

from typing import Any

from celery import current_app
from django.conf import settings
from django.core import checks
from psycopg import IsolationLevel

# Of all checks of ours. Beats and workers ask for these alone: Django's own load every page of the web process.
TAG = "onbeat"


def register() -> None:
    for check in (
        broker_and_database_go_together,
        statements_see_what_was_committed,
        dead_letters_are_kept_longest,
        plain_tasks_are_confirmed,
        quorum_queues_have_a_broker,
    ):
        checks.register(check, TAG)


def statements_see_what_was_committed(**_kwargs: Any) -> list[checks.CheckMessage]:
    """Limits are counted under a lock: a snapshot from before the lock would count too few."""
    options = settings.DATABASES["default"].get("OPTIONS", {})
    if options.get("isolation_level", IsolationLevel.READ_COMMITTED) == IsolationLevel.READ_COMMITTED:
        return []
    return [
        checks.Error(
            "The database's isolation level is not READ COMMITTED: more of a limited job could run than it may.",
            hint="Remove isolation_level from the OPTIONS of the database.",
            id="onbeat_executions.E001",
        )
    ]


def dead_letters_are_kept_longest(**_kwargs: Any) -> list[checks.CheckMessage]:
    if settings.ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS >= settings.ONBEAT_EXECUTIONS_RETENTION_DAYS:
        return []
    return [
        checks.Error(
            "Dead letters that nobody handled would be kept for fewer days than what went well.",
            hint="Make ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS at least ONBEAT_EXECUTIONS_RETENTION_DAYS.",
            id="onbeat_executions.E002",
        )
    ]


def broker_and_database_go_together(**_kwargs: Any) -> list[checks.CheckMessage]:
    is_folder = settings.CELERY_BROKER_URL.startswith("folder:")
    is_sqlite = settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3"
    if is_folder and not is_sqlite:
        return [
            checks.Warning(
                "PostgreSQL is used with a folder as broker: workers on other machines see no messages.",
                hint="Set CELERY_BROKER_URL to RabbitMQ's address, amqp://….",
                id="onbeat_executions.W001",
            )
        ]
    if is_sqlite and not is_folder:
        return [
            checks.Warning(
                "RabbitMQ is used with SQLite: beats and workers on other machines cannot claim executions.",
                hint="Set DATABASE_URL to PostgreSQL's address, postgresql://….",
                id="onbeat_executions.W002",
            )
        ]
    return []


def plain_tasks_are_confirmed(**_kwargs: Any) -> list[checks.CheckMessage]:
    """Executions always are; this is about a plain `.delay()`."""
    options = current_app.conf.broker_transport_options or {}
    if settings.CELERY_BROKER_URL.startswith("folder:") or options.get("confirm_publish"):
        return []
    return [
        checks.Warning(
            "A plain .delay() does not wait for the broker's confirm: a message can be lost without an error.",
            hint="Set confirm_publish to True in CELERY_BROKER_TRANSPORT_OPTIONS.",
            id="onbeat_executions.W003",
        )
    ]


def quorum_queues_have_a_broker(**_kwargs: Any) -> list[checks.CheckMessage]:
    if settings.ONBEAT_EXECUTIONS_QUEUE_TYPE == "classic" or not settings.CELERY_BROKER_URL.startswith("folder:"):
        return []
    return [
        checks.Warning(
            "Quorum queues are asked for, and the broker is a folder, which has none.",
            hint="Set CELERY_BROKER_URL to RabbitMQ's address, amqp://…, or leave ONBEAT_EXECUTIONS_QUEUE_TYPE out.",
            id="onbeat_executions.W004",
        )
    ]
