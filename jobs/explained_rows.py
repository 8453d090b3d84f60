"""What the row of a fire tells of it: the verdict, a sentence, what happened when, and what can be done.

Invariant: says what rows know, and guesses nothing; the sentence is that of `executions/why.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from executions import queues, why
from executions.models import Attempt, Execution
from executions.states import State, Trigger
from executions.storable import stored_in_a_line
from executions.words import count, duration
from jobs.verdicts import Around, Explained, Verdict

_VERDICTS = {
    State.SUCCEEDED: Verdict.RAN,
    State.DEAD: Verdict.FAILED,
    State.RUNNING: Verdict.RUNS,
    State.SCHEDULED: Verdict.WAITS,
    State.QUEUED: Verdict.WAITS,
    State.SKIPPED: Verdict.SKIPPED,
    State.CANCELLED: Verdict.CANCELLED,
}
_BEGINS = {Verdict.RAN: "It ran", Verdict.FAILED: "It failed", Verdict.RUNS: "It runs", Verdict.WAITS: "It waits"}
_REPLAYED = (Verdict.FAILED, Verdict.CANCELLED)


def verdict_of(row: Execution, *, now: datetime) -> Verdict:
    is_ahead = row.state == State.SCHEDULED and row.attempt == 1 and row.fire_time > now and not row.is_waiting
    return Verdict.NOT_YET if is_ahead else _VERDICTS[State(row.state)]


def explained(
    row: Execution,
    fire_time: datetime,
    *,
    now: datetime,
    around: Around,
    attempts: Sequence[Attempt] = (),
    replays: Sequence[Execution] = (),
) -> Explained:
    verdict = verdict_of(row, now=now)
    facts = (*_moments(row, fire_time), *_tries(attempts), *_replays(replays))
    told = Explained(fire_time, verdict, _says(row, verdict, now=now), "", row.pk, facts)
    if verdict is Verdict.WAITS:
        return _held(told, row, around, now=now)
    if verdict in _REPLAYED and row.handled_at is None and not replays:
        return replace(told, remedy=f"./onbeat executions replay {row.pk}")
    return told


def _says(row: Execution, verdict: Verdict, *, now: datetime) -> str:
    if verdict is Verdict.SKIPPED:
        return f"It did not run: {row.reason or 'no reason was given'}."
    text = why.in_words(row, now=now)
    if verdict is Verdict.FAILED and row.error:
        return f"It failed: {_sentence(stored_in_a_line(row.error))} {text}"
    if verdict not in _BEGINS:
        return text
    text = text.removeprefix("Not yet: ")
    return f"{_BEGINS[verdict]}: {text[0].lower()}{text[1:]}"


def _held(told: Explained, row: Execution, around: Around, *, now: datetime) -> Explained:
    """What keeps it from running, as things are now."""
    if row.available_at > now:
        return told
    queue = queues.work_queue(row.queue).name
    if queue not in around.consumed:
        says = f"{told.says} No worker takes from the queue {row.queue!r}."
        return replace(told, says=says, remedy=f"./onbeat worker -Q {queue}")
    if row.state == State.SCHEDULED and around.troubles:
        return replace(told, says=f"{told.says} {' '.join(map(_sentence, around.troubles))}", remedy="./onbeat doctor")
    return told


def _moments(row: Execution, fire_time: datetime) -> Iterator[tuple[str, str]]:
    if row.trigger != Trigger.SCHEDULE:
        yield "trigger", row.trigger.lower()
    if row.skipped_until is not None and row.skipped_until != row.fire_time:
        number = "several fires" if row.skipped_count is None else count(row.skipped_count, "fire")
        yield "skipped with it", f"{number} from {clock(row.fire_time)} to {clock(row.skipped_until)}"
        return
    # A row that was skipped or that a backfill made was stored when that was decided.
    if row.trigger == Trigger.SCHEDULE and row.state != State.SKIPPED:
        yield "planned", _beside(row.created_at, fire_time)
    if row.available_at != fire_time:
        yield "available", _beside(row.available_at, fire_time)
    if row.state == State.SCHEDULED and row.attempt > 1:
        return  # the row still has the moments of the attempt before, whose record tells of it
    last = f" (attempt {row.attempt})" if row.attempt > 1 else ""
    if row.queued_at is not None:
        yield f"queued{last}", _beside(row.queued_at, fire_time)
    if row.started_at is not None:
        yield f"started{last}", f"{_beside(row.started_at, fire_time)}, on {row.worker}"
    if row.finished_at is not None:
        took = f", after {duration(row.finished_at - row.started_at)}" if row.started_at is not None else ""
        yield "ended", f"{clock(row.finished_at)}{took}"


def _tries(attempts: Sequence[Attempt]) -> Iterator[tuple[str, str]]:
    for attempt in attempts:
        error = f": {stored_in_a_line(attempt.error)}" if attempt.error else ""
        took = duration(attempt.finished_at - attempt.started_at)
        yield f"attempt {attempt.number}", f"{attempt.outcome} after {took} on {attempt.worker}{error}"


def _replays(replays: Sequence[Execution]) -> Iterator[tuple[str, str]]:
    for replay in replays:
        yield "replayed", f"{replay.pk}, {replay.state}"


def clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _beside(moment: datetime, fire_time: datetime) -> str:
    """With how far from its time it was."""
    seconds = (moment - fire_time).total_seconds()
    if abs(seconds) < 0.001:
        return clock(moment)
    return f"{clock(moment)}, {duration(abs(seconds))} {'after' if seconds > 0 else 'before'} its time"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
