"""The pages of the admin that are timed, and how.

`pages` is the whole table: a name for people, which budget the page has, and its addresses. A page of one row of many
has several addresses, so that not always the same row is asked for; they are asked for in turn, one per request. Pages
take turns as well: what is slow for a while is slow for all of them, and nobody is asked twice in a row.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from benchmarks import api_pages, many_executions
from benchmarks.budgets import Line, milliseconds, percentile
from benchmarks.our_web import Visitor
from launcher.refusal import Refusal

REQUESTS = 40
ROWS_OF_A_KIND = 20
_WARM_UP = 3
_LEAST_REQUESTS = 5
_PATIENCE_SECONDS = 30  # for all requests of one page: a page as slow as that needs no p95 of forty
_SEED = 30


class Kind(StrEnum):
    DASHBOARD = "dashboard"
    LIST = "list"
    DETAIL = "detail"

    @property
    def budget_ms(self) -> int:
        return 400 if self is Kind.DASHBOARD else 300


@dataclass(frozen=True)
class Page:
    kind: Kind
    addresses: Sequence[str]


@dataclass(frozen=True)
class Rows:
    """Those that have pages of their own here, by their primary keys."""

    large_job: int
    small_jobs: Sequence[int]
    dead: Sequence[Any]
    succeeded: Sequence[Any]
    running: Sequence[Any]
    deep_in_jobs: str  # cursors
    deep_in_executions: str


def pages(rows: Rows) -> dict[str, Page]:
    jobs, executions = "onbeat_jobs/job", "onbeat_executions/execution"
    common = many_executions.fingerprint(0)
    return {
        "dashboard": Page(Kind.DASHBOARD, ["/admin/"]),
        "dashboard, its living part": Page(Kind.DASHBOARD, ["/admin/living/"]),
        "jobs": _list(jobs),
        "jobs, deep page": _list(jobs, cursor=rows.deep_in_jobs),
        "jobs, search": _list(jobs, search="bench-123"),
        "jobs, search without a hit": _list(jobs, search="nobody"),
        "jobs, PAUSED": _list(jobs, state="PAUSED"),
        "jobs, ARCHIVED": _list(jobs, state="ARCHIVED"),
        "jobs, by queue": _list(jobs, queue="reports"),
        "jobs, by next fire": _list(jobs, order="next"),
        "jobs, by next fire in a queue": _list(jobs, order="next", queue="reports"),
        "jobs, changed last": _list(jobs, order="changed"),
        "jobs, newest": _list(jobs, order="newest"),
        "job with very many executions": _details(jobs, [rows.large_job]),
        "job with few executions": _details(jobs, rows.small_jobs),
        "job, form": Page(Kind.DETAIL, [f"/admin/{jobs}/{rows.large_job}/edit/"]),
        "executions": _list(executions),
        "executions, deep page": _list(executions, cursor=rows.deep_in_executions),
        "executions, SUCCEEDED": _list(executions, state="SUCCEEDED"),
        "executions, DEAD": _list(executions, state="DEAD"),
        "executions, RUNNING": _list(executions, state="RUNNING"),
        "executions, not over": _list(executions, state="open"),
        "executions, still to come": _list(executions, when="coming"),
        "executions, MANUAL": _list(executions, trigger="MANUAL"),
        "executions, by queue": _list(executions, queue="reports"),
        "executions, DEAD in a queue": _list(executions, state="DEAD", queue="reports"),
        "executions, rare worker": _list(executions, worker=many_executions.RARE_WORKER),
        "executions, by a part of the error": _list(executions, error="ConnectionError: 7"),
        "executions, by an error that nobody had": _list(executions, error="nobody"),
        "executions of a job with very many": _list(executions, job=many_executions.LARGE_JOB),
        "executions alike": _list(executions, fingerprint=common),
        "execution, DEAD": _details(executions, rows.dead),
        "execution, SUCCEEDED": _details(executions, rows.succeeded),
        "execution, RUNNING": _details(executions, rows.running),
        "dead letters": Page(Kind.LIST, ["/admin/dead-letters/"]),
        "queues": Page(Kind.LIST, ["/admin/queues/"]),
        "beats": _list("onbeat_beat/beat"),
        "workers": _list("onbeat_workers/worker"),
        "audit trail": _list("onbeat_access/auditentry"),
        "audit trail, search": _list("onbeat_access/auditentry", q="job:bench-123"),
        "API keys": _list("onbeat_access/apikey"),
    }


def _list(model: str, **asked: object) -> Page:
    return Page(Kind.LIST, [f"/admin/{model}/{'?' if asked else ''}{urlencode(asked)}"])


def _details(model: str, keys: Iterable[object]) -> Page:
    return Page(Kind.DETAIL, [f"/admin/{model}/{key}/change/" for key in keys])


def rows_to_visit(now: datetime) -> Rows:
    """Of a filled database: jobs of its second half, and executions from its first month to now."""
    from api.pages import written
    from executions.identity import fire_time_of
    from executions.models import Execution
    from executions.states import State
    from jobs.models import Job

    large = Job.objects.get(key=many_executions.LARGE_JOB).pk
    count = Job.objects.count()
    first = Execution.objects.order_by("pk").values_list("fire_time", flat=True)[0]
    moments = api_pages.spread(first, now, ROWS_OF_A_KIND)
    deep = _next(State.SUCCEEDED, moments[len(moments) // 2])
    dice = random.Random(_SEED)  # the same in each run
    return Rows(
        large_job=large,
        small_jobs=[large + dice.randrange(count // 2, count) for _ in range(ROWS_OF_A_KIND)],
        dead=[_next(State.DEAD, moment) for moment in moments],
        succeeded=[_next(State.SUCCEEDED, moment) for moment in moments],
        running=list(Execution.objects.running().order_by("pk").values_list("pk", flat=True)[:ROWS_OF_A_KIND]),
        deep_in_jobs=written("bench-5", large),
        deep_in_executions=written(fire_time_of(deep), deep),
    )


def _next(state: str, moment: datetime) -> Any:
    """The first of this state that fired after a moment, or else the last of all."""
    from executions.identity import earliest_id
    from executions.models import Execution

    of_state = Execution.objects.filter(state=state)
    found = of_state.filter(pk__gte=earliest_id(moment)).order_by("pk").first() or of_state.order_by("pk").last()
    if found is None:
        raise Refusal(f"No execution is {state}: let there be more --rows.")
    return found.pk


# ── Visits ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Visited:
    name: str
    page: Page
    seconds: list[float] = field(default_factory=list)
    bytes: int = 0

    @property
    def p95_ms(self) -> float:
        return milliseconds(percentile(self.seconds, 95))

    @property
    def has_enough(self) -> bool:
        return len(self.seconds) >= _LEAST_REQUESTS and sum(self.seconds) > _PATIENCE_SECONDS

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.page.kind,
            "requests": len(self.seconds),
            "bytes": self.bytes,
            "p50_ms": milliseconds(percentile(self.seconds, 50)),
            "p95_ms": self.p95_ms,
            "max_ms": milliseconds(max(self.seconds)),
            "budget_ms": self.page.kind.budget_ms,
            "is_met": self.p95_ms <= self.page.kind.budget_ms,
        }


def visit(visitor: Visitor, wanted: dict[str, Page], *, requests: int) -> list[Visited]:
    """Each page so many times after a warm-up, all of them in turn."""
    visited = [Visited(name, page) for name, page in wanted.items()]
    for one in visited:
        for number in range(_WARM_UP):
            visitor.get(one.page.addresses[-1 - number % len(one.page.addresses)], name=one.name)
    for number in range(requests):
        for one in visited:
            if not one.has_enough:
                reply = visitor.get(one.page.addresses[number % len(one.page.addresses)], name=one.name)
                one.seconds.append(reply.seconds)
                one.bytes = max(one.bytes, len(reply.text))
    return visited


def lines(visited: Sequence[Visited]) -> list[Line]:
    """The slowest page of each kind beside its budget: if that meets it, all do."""
    told = []
    for kind in Kind:
        of_kind = [one for one in visited if one.page.kind is kind]
        worst = max(of_kind, key=lambda one: one.p95_ms)
        what = kind if len(of_kind) == 1 else f"slowest {kind} page ({worst.name})"
        name = f"{kind}_p95" if len(of_kind) == 1 else f"{kind}_worst_p95"
        told.append(Line(name, f"{what}: p95", worst.p95_ms, "ms", kind.budget_ms))
    return told
