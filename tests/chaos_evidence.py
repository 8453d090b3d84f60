"""Small stories for the judge of `chaos/`: what rows, records, handlers and callers tell of the same few executions.

Seconds are counted from the beginning of the story. What a test does not say is as in a run where nothing went wrong:
whoever asked for a run is in the journal, and what is over says since when. Which job may be skipped, cancelled or
given up is said in `chaos/policies.py`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chaos.evidence import Attempt, Evidence, Row, Version
from chaos.journal import Entry
from chaos.judge import judge
from chaos.ledger import Run
from chaos.load import cron_of
from chaos.rules.runs import OVER

BEGAN_AT = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
UNTIL = 60.0
_STATE_AFTER = {"SUCCEEDED": "SUCCEEDED", "CANCELLED": "CANCELLED"}  # of the row, by its last outcome; else DEAD

# How a handler ended, and what is recorded of it. None: it never began; nothing is recorded.
End = tuple[str | None, str | None]
OK: End = ("ok", "SUCCEEDED")
FAILED: End = ("failed", "FAILED")
LOST: End = ("", "WORKER_LOST")
STOPPED: End = ("stopped", "CANCELLED")


def at(seconds: float) -> datetime:
    return BEGAN_AT + timedelta(seconds=seconds)


def clock(seconds: float) -> float:
    """The same as the ledger and the journal count it."""
    return at(seconds).timestamp()


@dataclass(frozen=True)
class Life:
    """One execution, as the product's rows and the handlers tell it."""

    row: Row
    attempts: Sequence[Attempt] = ()
    runs: Sequence[Run] = ()

    def with_row(self, **facts: Any) -> "Life":
        return replace(self, row=replace(self.row, **facts))

    def sooner(self, seconds: float) -> "Life":
        """The same, and all that was done came so much before: its row still says the first time."""
        ran = [
            replace(run, began_at=run.began_at - seconds, ended_at=_minus(run.ended_at, seconds)) for run in self.runs
        ]
        by = timedelta(seconds=seconds)
        recorded = [
            replace(each, started_at=each.started_at - by, finished_at=each.finished_at - by) for each in self.attempts
        ]
        return replace(self, runs=ran, attempts=recorded)


def _minus(moment: float | None, seconds: float) -> float | None:
    return None if moment is None else moment - seconds


def life(
    name: str = "one",
    job: str = "asked",
    fire: float = 10,
    ends: Sequence[End] = (OK,),
    *,
    trigger: str = "MANUAL",
    **facts: Any,
) -> Life:
    """An execution whose attempts end so, one after the other: a handler half a second after it began.

    Each that is no fire has a mark of its own, by which its asker is known.
    """
    mark = facts.pop("mark", "" if trigger == "SCHEDULE" else f"mark of {name}")
    attempts, runs = [], []
    for number, (how, outcome) in enumerate(ends, start=1):
        start = fire + number - 1
        if how is not None:
            ended_at, token = clock(start + 0.5) if how else None, f"{name}/{number}" if how == "ok" else ""
            runs.append(Run(name, number, job, clock(start), ended_at, how, token, mark))
        if outcome is not None:
            attempts.append(Attempt(name, number, outcome, at(start), at(start + 0.6)))
    last = ends[-1][1] if ends else None
    state = facts.pop("state", "SCHEDULED" if last is None else _STATE_AFTER.get(last, "DEAD"))
    row = Row(
        id=name,
        job=job,
        fire_time=at(fire),
        trigger=trigger,
        state=state,
        attempt=max(len(ends), 1),
        lost=sum(outcome == "WORKER_LOST" for _, outcome in ends),
        reason="",
        available_at=at(fire),
        queued_at=at(fire),
        cancel_requested_at=None,
        skipped_until=None,
        result={"token": f"{name}/{len(ends)}"} if state == "SUCCEEDED" else None,
        mark=mark,
        run_key="",
        finished_at=at(fire + max(len(ends) - 1, 0) + 0.6) if state in OVER else None,
    )
    return Life(replace(row, **facts), attempts, runs)


def fired(fire: float, job: str = "tick", **facts: Any) -> Life:
    """A fire of a schedule that ran; its job's name and its time are its name."""
    return life(f"{job}@{fire:g}", job, fire, trigger="SCHEDULE", **facts)


def skipped(first: float, last: float | None, job: str = "edited-tick") -> Life:
    """The row of a stretch of fires that did not run; without a last one, of a single fire."""
    until = None if last is None else at(last)
    name = f"{job}@{first:g} left out"
    return life(name, job, first, ends=(), trigger="SCHEDULE", state="SKIPPED", skipped_until=until)


def version(
    number: int = 1, change: str = "CREATED", changed: float = 0, *, step: int = 20, job: str = "tick"
) -> Version:
    return Version(job, number, change, at(changed), {"kind": "CRON", "expression": cron_of(step), "anchor_at": None})


def entry(deed: str, sent: float, answered: float | None, outcome: str = "done", **facts: Any) -> Entry:
    """What a caller asked for. Without a moment for the answer it got none."""
    if answered is None:
        return Entry("rest", deed, facts.pop("job", "asked"), clock(sent), **facts)
    return Entry("rest", deed, facts.pop("job", "asked"), clock(sent), clock(answered), outcome, **facts)


def story(
    *lives: Life,
    versions: Sequence[Version] = (),
    journal: Sequence[Entry] = (),
    limits: Mapping[str, int] | None = None,
    are_asked_for: bool = True,
    **facts: Any,
) -> Evidence:
    """The evidence of these lives. Each attempt was published once before it became QUEUED, and each run that is no
    fire has an asker who knows of it, unless the test says."""
    once = Counter((each.execution, each.number) for one in lives for each in one.attempts)
    evidence = Evidence(
        began_at=BEGAN_AT,
        until=at(UNTIL),
        rows=[one.row for one in lives],
        attempts=[each for one in lives for each in one.attempts],
        versions=versions,
        runs=[run for one in lives for run in one.runs],
        journal=[*journal, *(_askers(lives, journal) if are_asked_for else [])],
        marks=once,
        copies=once,
        limits=limits or {},
    )
    return replace(evidence, **facts)


def _askers(lives: Sequence[Life], journal: Sequence[Entry]) -> list[Entry]:
    """One for each mark that the journal does not tell of. Two rows of one mark have one asker."""
    told = {each.mark for each in journal if each.deed == "run"}
    first = {one.row.mark: one.row for one in reversed(lives) if one.row.trigger != "SCHEDULE"}
    return [
        asked_for(row.id, fire=row.fire_time.timestamp() - clock(0), job=row.job, mark=mark, run_key=row.run_key)
        for mark, row in first.items()
        if mark not in told
    ]


def asked_for(execution: str, *, fire: float = 10, **facts: Any) -> Entry:
    """A new run that a caller was told of, shortly before its time."""
    return entry("run", fire - 0.2, fire - 0.1, "new", execution=execution, **facts)


def cancelled(execution: str, sent: float, outcome: str | None = "cancelled", **facts: Any) -> Entry:
    """Somebody cancels it and is answered a tenth of a second later; None: not at all."""
    if outcome is None:
        return entry("cancel", sent, None, execution=execution, **facts)
    return entry("cancel", sent, sent + 0.1, outcome, execution=execution, **facts)


def speaking(evidence: Evidence) -> list[str]:
    """The rules that were broken, each once."""
    return list(dict.fromkeys(breach.rule for breach in judge(evidence)))


def said(evidence: Evidence) -> list[str]:
    """What was broken, without the names of the rules."""
    return [breach.what for breach in judge(evidence)]
