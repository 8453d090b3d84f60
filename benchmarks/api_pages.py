"""Pages of the list of executions: every filter alone and some together, at the front and deep within the table.

Each question is asked from its first page on, and then from moments that are spread over the whole table. From each of
these places the pages that follow are read as well, by the `next` of the answer.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from benchmarks import many_executions
from benchmarks.api_writes import BULK_JOB
from benchmarks.budgets import Line, milliseconds, percentile
from benchmarks.our_web import Caller, Web

P95_MS = 50
_SEED = 20
_FOLLOWED = 2  # pages after each place
_FOLLOWED_FROM_START = 20


@dataclass(frozen=True)
class Asked:
    """The pages of one question."""

    name: str
    seconds: list[float]
    items: int
    empty: int

    def as_json(self) -> dict[str, Any]:
        return {
            "pages": len(self.seconds),
            "items": self.items,
            "empty_pages": self.empty,
            "p50_ms": milliseconds(percentile(self.seconds, 50)),
            "p95_ms": milliseconds(percentile(self.seconds, 95)),
            "max_ms": milliseconds(max(self.seconds)),
        }


def questions(now: datetime) -> dict[str, dict[str, Any]]:
    """By a name for people, the parameters of the list."""
    large, small = many_executions.LARGE_JOB, many_executions.SMALL_JOB
    common, rare = many_executions.fingerprint(0), many_executions.fingerprint(many_executions.FINGERPRINTS - 1)
    one_day = {"since": _text(now - timedelta(days=41)), "until": _text(now - timedelta(days=40))}
    two_months = {"since": _text(now - timedelta(days=90)), "until": _text(now - timedelta(days=30))}
    worker = many_executions.COMMON_WORKER
    return {
        "all": {},
        "all, 200 on a page": {"limit": 200},
        "job, large": {"job": large},
        "job, small": {"job": small},
        "job, many at one instant": {"job": BULK_JOB},
        "state SUCCEEDED": {"state": "SUCCEEDED"},
        "state DEAD": {"state": "DEAD"},
        "state SKIPPED": {"state": "SKIPPED"},
        "state CANCELLED": {"state": "CANCELLED"},
        "state SCHEDULED": {"state": "SCHEDULED"},
        "state QUEUED": {"state": "QUEUED"},
        "state RUNNING": {"state": "RUNNING"},
        "states DEAD, CANCELLED": {"state": "DEAD,CANCELLED"},
        "one day": one_day,
        "two months": two_months,
        "queue, common": {"queue": "default"},
        "queue, less common": {"queue": "reports"},
        "queue, unknown": {"queue": "nobody"},
        "worker, common": {"worker": worker},
        "worker, rare": {"worker": many_executions.RARE_WORKER},
        "worker, unknown": {"worker": "nobody@nowhere"},
        "trigger MANUAL": {"trigger": "MANUAL"},
        "trigger BACKFILL, REPLAY": {"trigger": "BACKFILL,REPLAY"},
        "fingerprint, common": {"fingerprint": common},
        "fingerprint, rare": {"fingerprint": rare},
        "fingerprint, unknown": {"fingerprint": "0" * 16},
        "large job, DEAD": {"job": large, "state": "DEAD"},
        "large job, rare worker": {"job": large, "worker": many_executions.RARE_WORKER},
        "large job, one day": {"job": large, **one_day},
        "small job, SUCCEEDED": {"job": small, "state": "SUCCEEDED"},
        "DEAD in two months": {"state": "DEAD", **two_months},
        "DEAD in a less common queue": {"state": "DEAD", "queue": "reports"},
        "DEAD on a rare worker": {"state": "DEAD", "worker": many_executions.RARE_WORKER},
        "worker and trigger": {"worker": worker, "trigger": "BACKFILL"},
        "fingerprint and large job": {"fingerprint": common, "job": large},
        "everything": {
            "job": large,
            "state": "SUCCEEDED,DEAD",
            "trigger": "SCHEDULE",
            "queue": "default",
            "worker": worker,
            **two_months,
        },
    }


def _text(moment: datetime) -> str:
    return moment.isoformat()


def ask(web: Web, *, first: datetime, now: datetime, places: int) -> list[Asked]:
    """Each question from the start, and from so many places between the first fire and now."""
    caller = web.caller()
    moments = spread(first, now, places)
    for parameters in questions(now).values():
        caller.get(_address(parameters))  # whoever comes first pays for reading from the disk what all need
    return [_ask(caller, name, parameters, moments) for name, parameters in questions(now).items()]


def spread(first: datetime, last: datetime, places: int) -> list[datetime]:
    """So many moments, one within each equal part of the time between two."""
    dice = random.Random(_SEED)  # the same places in each run
    return [first + (last - first) * ((number + dice.random()) / places) for number in range(places)]


def _ask(caller: Caller, name: str, parameters: dict[str, Any], moments: list[datetime]) -> Asked:
    seconds, items, empty = [], 0, 0
    walks = [_walk(caller, _address(parameters), _FOLLOWED_FROM_START)]
    walks += [_walk(caller, _address({**parameters, "cursor": _cursor(moment)}), _FOLLOWED) for moment in moments]
    for walk in walks:
        for took, count in walk:
            seconds.append(took)
            items += count
            empty += not count
    return Asked(name, seconds, items, empty)


def _walk(caller: Caller, address: str, followed: int) -> Iterator[tuple[float, int]]:
    following: str | None = address
    for _ in range(1 + followed):
        if following is None:
            return
        answer = caller.get(following)
        yield answer.seconds, len(answer.body["items"])
        following = answer.next


def _address(parameters: dict[str, Any]) -> str:
    return f"/executions?{urlencode(parameters)}"


def _cursor(moment: datetime) -> str:
    from api import pages
    from executions.identity import new_execution_id

    return pages.written(moment, new_execution_id(moment))


def lines(asked: list[Asked], rows: int) -> Iterator[Line]:
    every = [seconds for one in asked for seconds in one.seconds]
    slowest = max(asked, key=lambda one: percentile(one.seconds, 95))
    what = f"a page of {rows:,} executions"
    yield Line("list_p95", f"{what}, all questions: p95", milliseconds(percentile(every, 95)), "ms", P95_MS)
    worst = milliseconds(percentile(slowest.seconds, 95))
    yield Line("list_worst_p95", f"{what}, slowest question ({slowest.name}): p95", worst, "ms", P95_MS)
    yield Line("list_p50", f"{what}, all questions: p50", milliseconds(percentile(every, 50)), "ms")
    yield Line("list_max", f"{what}, all questions: slowest", milliseconds(max(every)), "ms")
