"""Executions that got stuck between two states, and dead letters that wait.

Invariant: each question is led by an index and stops at a limit, so that it costs the same however much there is.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from executions import backlog, depths
from executions.models import DeadMessage, Execution, RunKey
from executions.states import State
from executions.words import count, duration
from terminal.doctor.findings import Examined, Fault, Finding, at_most
from terminal.doctor.visit import Visit

PATIENCE = timedelta(minutes=5)
MOST = 1000

NOT_PUBLISHED = Fault(
    "executions.E01",
    means="Beats tick, and these are due and not published: they are late, and not lost.",
    remedy="See in the beats' log what holds them up; a queue may be refused, or more is due than beats can publish.",
)
MESSAGE_GONE = Fault(
    "executions.E02",
    means="Their messages are gone from the queue; a beat publishes them again, if one ticks.",
    remedy="See that a beat ticks; `./onbeat upkeep lost-messages` does it now.",
)
NOT_RESCUED = Fault(
    "executions.E03",
    means="Their workers are silent, and nobody ended the attempts: they count as running for ever.",
    remedy="See that a beat ticks; `./onbeat upkeep rescue` ends them now.",
)
KEYS_HELD = Fault(
    "executions.W01",
    means="Upkeep did not free the names of runs for a while; those of runs that are over are free all the same.",
    remedy="Run `./onbeat upkeep run-keys`, and see in the beats' log why they did not.",
)
DEAD_LETTERS = Fault(
    "executions.W02",
    means="They gave up, or no worker could take them, and wait for a person.",
    remedy="Replay or discard them, on the page Dead letters of the admin or by the REST API.",
)
UNHEARD = Fault(
    "executions.W03",
    means="Receivers of callbacks promised to tell the end by now, and nobody ended what they did not tell of.",
    remedy="See that a beat ticks; `./onbeat upkeep unheard` ends them now.",
)


def examine(visit: Visit) -> Examined:
    waiting = backlog.by_queue(now=visit.now)
    due, queued = (sum(getattr(each, name) for each in waiting.values()) for name in ("due", "queued"))
    running = sum(each.running for each in waiting.values())
    findings = [*_dead()]
    if visit.is_ticking_for(PATIENCE.total_seconds() / 60):
        findings = [*_stuck(visit), *findings, *_undone(visit)]
    return Examined(f"{count(due, 'execution')} due, {queued:,} queued, {running:,} running", findings)


def _counted(rows: QuerySet[Any]) -> int:
    return rows.order_by().values("pk")[: MOST + 1].count()


def _stuck(visit: Visit) -> Iterator[Finding]:
    due = Execution.objects.due(visit.now - PATIENCE)
    if number := _counted(due):
        oldest = due.order_by("available_at").values_list("available_at", flat=True)[0]
        since = duration(visit.now - oldest)
        says = f"{at_most(number, MOST, 'execution')} due and not published, the oldest for {since}."
        yield NOT_PUBLISHED.found(says, count=number)
    yield from _messages_gone(visit)
    patience = timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    if number := _counted(Execution.objects.silent_since(visit.now - PATIENCE - patience)):
        says = f"{at_most(number, MOST, 'attempt')} running without a heartbeat for more than {duration(PATIENCE)}."
        yield NOT_RESCUED.found(says, count=number)


def _messages_gone(visit: Visit) -> Iterator[Finding]:
    patience = timedelta(seconds=settings.ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS)
    old = Execution.objects.queued_before(visit.now - PATIENCE - patience)
    names = old.order_by("queue").values_list("queue", flat=True).distinct()[:100]
    empty = [queue for queue, ready in depths.ready(names).items() if not ready]
    if empty and (number := _counted(old.filter(queue__in=empty))):
        says = f"{at_most(number, MOST, 'execution')} queued, while {', '.join(map(repr, empty))} is empty."
        yield MESSAGE_GONE.found(says, count=number, queues=empty)


def _dead() -> Iterator[Finding]:
    executions = _counted(Execution.objects.filter(state=State.DEAD, handled_at=None))
    messages = _counted(DeadMessage.objects.filter(handled_at=None))
    if executions or messages:
        parts = [at_most(executions, MOST, "dead letter")] if executions else []
        parts += [at_most(messages, MOST, "dead message")] if messages else []
        parts[1:] = map(str.lower, parts[1:])
        says = f"{' and '.join(parts)} wait{'s' if executions + messages == 1 else ''} for a person."
        yield DEAD_LETTERS.found(says, executions=executions, messages=messages)


def _undone(visit: Visit) -> Iterator[Finding]:
    if number := _counted(RunKey.objects.filter(look_at__lt=visit.now - PATIENCE)):
        yield KEYS_HELD.found(f"{at_most(number, MOST, 'run key')} not looked at in time.", count=number)
    if number := _counted(Execution.objects.awaited().filter(awaited_until__lt=visit.now - PATIENCE)):
        says = f"{at_most(number, MOST, 'execution')} whose end was to be told more than {duration(PATIENCE)} ago."
        yield UNHEARD.found(says, count=number)
