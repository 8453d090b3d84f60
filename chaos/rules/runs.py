"""What ran: as often as it should, when it should, and no more at once than it may."""

from collections import defaultdict
from collections.abc import Iterator

from chaos.evidence import Attempt, Evidence, Row
from chaos.ledger import Run
from chaos.policies import allowed

OVER = {"SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED"}
# The database's clock is that of this machine, and each process carries it on by itself for a few seconds.
CLOCKS_DIFFER_SECONDS = 0.25


def rows_by_id(evidence: Evidence) -> dict[str, Row]:
    return {row.id: row for row in evidence.rows}


def runs_by_attempt(evidence: Evidence) -> dict[tuple[str, int], list[Run]]:
    found: defaultdict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in evidence.runs:
        found[run.execution, run.attempt].append(run)
    return found


def attempts_by_execution(evidence: Evidence) -> dict[str, list[Attempt]]:
    found: defaultdict[str, list[Attempt]] = defaultdict(list)
    for each in sorted(evidence.attempts, key=lambda each: each.number):
        found[each.execution].append(each)
    return found


def due(evidence: Evidence) -> Iterator[Row]:
    return (row for row in evidence.rows if row.fire_time <= evidence.until)


def no_run_without_row(evidence: Evidence) -> Iterator[str]:
    rows = rows_by_id(evidence)
    for run in evidence.runs:
        row = rows.get(run.execution)
        if row is None:
            yield f"{run.job} ran as {run.execution}, of which there is no row"
        elif (run.job, run.mark) != (row.job, row.mark):
            yield f"{row.job} {row.id} ran as one of {run.job}, with the mark {run.mark or 'of nobody'}"
        elif run.attempt > row.attempt:
            yield f"{row.job} {row.id} ran as attempt {run.attempt}, and its row is at {row.attempt}"


def no_run_before_its_time(evidence: Evidence) -> Iterator[str]:
    """What was moved may come earlier than its fire time, which stays the first that was asked for."""
    rows = rows_by_id(evidence)
    moved = {entry.execution for entry in evidence.journal if entry.deed == "move"}
    for run in evidence.runs:
        row = rows.get(run.execution)
        early = 0.0 if row is None else row.fire_time.timestamp() - run.began_at
        if early > CLOCKS_DIFFER_SECONDS and run.execution not in moved:
            yield f"{run.job} {run.execution} began {early:.2f} s before its time"


def no_row_without_end(evidence: Evidence) -> Iterator[str]:
    """Nothing is in limbo: what was due is over."""
    for row in due(evidence):
        if row.state not in OVER:
            why = row.reason or row.error or "no reason"
            yield f"{row.job} {row.id} is {row.state} at attempt {row.attempt}: {why}"


def drained_in_time(evidence: Evidence) -> Iterator[str]:
    if evidence.drained_after is None or evidence.drained_after > evidence.drained_within:
        yield f"{evidence.drained_within:.0f} s after the last fault not all was over"


def what_should_run_ran(evidence: Evidence) -> Iterator[str]:
    runs = runs_by_attempt(evidence)
    for row in due(evidence):
        if row.state == "SUCCEEDED" and (row.id, row.attempt) not in runs:
            yield f"{row.job} {row.id} is SUCCEEDED, and its attempt {row.attempt} never ran"
        has_run = any((row.id, number) in runs for number in range(1, row.attempt + 1))
        if row.state == "DEAD" and not has_run and not allowed(row.job).dies_before_it_runs:
            yield f"{row.job} {row.id} was given up and never ran: {row.error.splitlines()[-1:]}"


def one_run_per_attempt(evidence: Evidence) -> Iterator[str]:
    for (execution, attempt), runs in runs_by_attempt(evidence).items():
        if len(runs) > 1:
            yield f"{runs[0].job} {execution}: attempt {attempt} ran {len(runs)} times"


def one_attempt_after_the_other(evidence: Evidence) -> Iterator[str]:
    """Nothing is tried again after a success, nor before the attempt before it was recorded as over."""
    runs = runs_by_attempt(evidence)
    for execution, attempts in attempts_by_execution(evidence).items():
        over = {each.number: each for each in attempts}
        done = [each.number for each in attempts if each.outcome == "SUCCEEDED"]
        later = [number for number in (*over, *_numbers(execution, runs)) if done and number > done[0]]
        if later:
            yield f"{execution}: attempt {done[0]} succeeded, and attempt {later[0]} came after it"
        for number in _numbers(execution, runs):
            before = over.get(number - 1)
            began = min(run.began_at for run in runs[execution, number])
            if before is not None and _over_at(before, runs) - began > CLOCKS_DIFFER_SECONDS:
                yield f"{execution}: attempt {number} began before attempt {number - 1} was over"


def _over_at(attempt: Attempt, runs: dict[tuple[str, int], list[Run]]) -> float:
    """When it was recorded as over; of one that failed by itself, not before its handler was done."""
    recorded = attempt.finished_at.timestamp()
    if attempt.outcome != "FAILED":
        return recorded  # lost, killed or stopped: what its hand does then is known to nobody
    return max(recorded, *(run.ended_at or 0.0 for run in runs.get((attempt.execution, attempt.number), [])), 0.0)


def _numbers(execution: str, runs: dict[tuple[str, int], list[Run]]) -> list[int]:
    most = 50  # far more than any of them has; all numbers of a run would make this square
    return [number for number in range(1, most) if (execution, number) in runs]


def no_more_at_once_than_allowed(evidence: Evidence) -> Iterator[str]:
    """A run counts until its handler is done, or until it was recorded as lost: what a lost hand does then is known
    to nobody, and no limit can hold it."""
    ends = {(each.execution, each.number): each.finished_at.timestamp() for each in evidence.attempts}
    by_job: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for run in evidence.runs:
        if run.job in evidence.limits:
            recorded = ends.get((run.execution, run.attempt), float("inf"))
            end = min(recorded - CLOCKS_DIFFER_SECONDS, float("inf") if run.ended_at is None else run.ended_at)
            if end > run.began_at:
                by_job[run.job] += [(run.began_at, 1), (end, -1)]
    for job, steps in by_job.items():
        at_once = most = 0
        for _, step in sorted(steps):
            at_once += step
            most = max(most, at_once)
        if most > evidence.limits[job]:
            yield f"{most} of {job} ran at once, and {evidence.limits[job]} may"
