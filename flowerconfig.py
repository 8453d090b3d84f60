"""What holds for Flower wherever it is started: `celery -A scheduler_project flower` reads this file in the checkout.

Invariant: nobody gets in without a password, nobody reaches it from elsewhere unless FLOWER_ADDRESS says so, and what
it remembers has an end. (Its /metrics and /healthcheck ask nobody for a password.)
"""

import os
from collections.abc import Iterable

from tornado.options import options


def _or_as_said(safe: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
    """Without what a FLOWER_ variable says: against this file, Flower would not heed it."""
    return {name: value for name, value in safe.items() if not os.environ.get(f"FLOWER_{name.upper()}")}


def _refuse_if_open(logins: Iterable[str]) -> None:
    if not logins and not options.auth:
        raise SystemExit(
            "Flower shows what runs and can stop it, and there is no password: set FLOWER_BASIC_AUTH to name:password."
        )
    for login in logins:
        name, _, password = login.partition(":")
        if not (name and password and login.isascii()):
            raise SystemExit(
                "FLOWER_BASIC_AUTH must be name:password in plain letters, digits and signs, several of them separated "
                "by commas; so a password cannot hold a comma."
            )


_refuse_if_open(options.basic_auth or [])
globals().update(
    _or_as_said(
        {
            "address": "127.0.0.1",
            "max_tasks": 10_000,
            "max_workers": 1_000,
            "purge_offline_workers": 3_600,  # seconds
            "persistent": False,  # history is ours
        }
    )
)
