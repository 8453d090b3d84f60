"""System checks of the project: what no single app can see."""

from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks

from executions.checks import TAG

_SQLITE = "django.db.backends.sqlite3"
_SHORTEST_KEY = 32
_PLACEHOLDERS = ("django-insecure", "change-me", "changeme", "change_me", "a-long-random-text")


def register() -> None:
    checks.register(full_is_safe, TAG)
    checks.register(others_are_safe, TAG)
    checks.register(others_are_let_in, TAG, deploy=True)
    checks.register(variables_are_known, TAG)


def full_is_safe(**_kwargs: Any) -> list[checks.CheckMessage]:
    """PostgreSQL means "in earnest": what is fine for a first look is not fine there."""
    if settings.DATABASES["default"]["ENGINE"] == _SQLITE:
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
    elif _is_guessable(settings.SECRET_KEY):
        found.append(_guessable_key())
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


def others_are_safe(**_kwargs: Any) -> list[checks.CheckMessage]:
    """Whoever names a host of others than this machine is in earnest, whatever the database."""
    found: list[checks.CheckMessage] = []
    if urlsplit(settings.ONBEAT_CONSOLE_FLOWER_URL).password is not None:
        found.append(
            checks.Error(
                "ONBEAT_CONSOLE_FLOWER_URL holds a password, and is in the links of every page.",
                hint="Take name and password out of it: the browser asks for them.",
                id="scheduler_project.E005",
            )
        )
    if not settings.IS_FOR_OTHERS:
        return found
    if settings.DATABASES["default"]["ENGINE"] == _SQLITE and _is_guessable(settings.SECRET_KEY):
        found.append(_guessable_key())
    if settings.DEBUG:
        found.append(
            checks.Error(
                "DEBUG is on, and ALLOWED_HOSTS lets others in: error pages show them settings and code.",
                hint="Unset DEBUG.",
                id="scheduler_project.E004",
            )
        )
    if "*" in settings.ALLOWED_HOSTS:
        found.append(
            checks.Warning(
                "ALLOWED_HOSTS lets in every name: what a caller writes into the Host header is believed.",
                hint="Name the hosts by which people reach the web process.",
                id="scheduler_project.W003",
            )
        )
    if not settings.HTTPS_ONLY:
        found.append(
            checks.Warning(
                "ALLOWED_HOSTS lets others in, and HTTPS_ONLY is off: passwords and sessions travel in plain text.",
                hint="Remove HTTPS_ONLY, and put a proxy that speaks HTTPS before the web process.",
                id="scheduler_project.W004",
            )
        )
    elif not settings.ONBEAT_API_PROXIES:
        found.append(
            checks.Warning(
                "HTTPS_ONLY is on, and no proxy is declared: what one forwards in plain http is sent back to HTTPS "
                "again and again, and all its callers count as one.",
                hint="Set ONBEAT_API_PROXIES to how many proxies of yours are before the web process.",
                id="scheduler_project.W005",
            )
        )
    return found


def others_are_let_in(**_kwargs: Any) -> list[checks.CheckMessage]:
    """For `check --deploy` alone: a beat needs no host name."""
    if settings.IS_FOR_OTHERS:
        return []
    return [
        checks.Warning(
            "ALLOWED_HOSTS names this machine alone: the web process refuses everybody else, and is on plain http.",
            hint="Set ALLOWED_HOSTS to the host by which people reach it.",
            id="scheduler_project.W006",
        )
    ]


def _is_guessable(key: str) -> bool:
    few_signs = len(key) < _SHORTEST_KEY or len(set(key)) < 8
    return few_signs or any(placeholder in key.lower() for placeholder in _PLACEHOLDERS)


def _guessable_key() -> checks.CheckMessage:
    return checks.Error(
        f"SECRET_KEY can be guessed: it is shorter than {_SHORTEST_KEY} characters, or an example's. Who has it can "
        "make sessions of anybody.",
        hint="Set it to what `python3 -c 'import secrets; print(secrets.token_urlsafe(48))'` prints.",
        id="scheduler_project.E003",
    )


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
