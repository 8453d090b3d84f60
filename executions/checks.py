"""System checks of the executions app: dangerous combinations of settings, each with an id."""

from typing import Any

from django.conf import settings
from django.core import checks


def register() -> None:
    checks.register(broker_and_database_go_together)


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
