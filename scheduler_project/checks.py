"""System checks of the project: what no single app can see."""

from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.core import checks

from executions.checks import TAG


def register() -> None:
    checks.register(full_is_safe, TAG)
    checks.register(variables_are_known, TAG)


def full_is_safe(**_kwargs: Any) -> list[checks.CheckMessage]:
    """PostgreSQL means "in earnest": what is fine for a first look is not fine there."""
    if settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
        return []
    found: list[checks.CheckMessage] = []
    if not settings.SECRET_KEY_IS_KEPT:
        found.append(
            checks.Error(
                "There is no SECRET_KEY: each process would make its own, and nobody would stay logged in.",
                hint="Set SECRET_KEY to a long random text, the same for all web processes.",
                id="scheduler_project.E001",
            )
        )
    if settings.DEBUG:
        found.append(
            checks.Warning(
                "DEBUG is on with PostgreSQL: error pages show settings, and memory grows with each query.",
                hint="Unset DEBUG.",
                id="scheduler_project.W001",
            )
        )
    if not settings.REDIS_URL:
        found.append(
            checks.Warning(
                "There is no REDIS_URL: several beats share their work through the database alone, and publish some "
                "messages twice when one comes or goes. Workers drop the doubles, so this costs only effort.",
                hint="Set REDIS_URL if you run more than one beat.",
                id="scheduler_project.W002",
            )
        )
    return found


def variables_are_known(**_kwargs: Any) -> list[checks.CheckMessage]:
    known = sorted(settings.ENVIRONMENT.asked_for)
    return [
        checks.Error(
            f"The variable {name} is not known.",
            hint=f"Did you mean {near[0]}?" if (near := get_close_matches(name, known, 1)) else "Remove it.",
            id="scheduler_project.E002",
        )
        for name in settings.ENVIRONMENT.unknown("ONBEAT_")
    ]
