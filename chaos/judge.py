"""Compares what should have happened with what did. Pure: evidence in, breaches out.

One function for each rule of the promise; none of them asks the product anything.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from chaos.evidence import Attempt, Evidence, Row, Version, moment
from chaos.journal import NOT_KNOWN
from chaos.ledger import Run
from chaos.walk import expected

_OVER = {"SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED"}
_SHOWN = 12
DRAINED_WITHIN_SECONDS = 60.0


@dataclass(frozen=True)
class Breach:
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


Rule = Callable[[Evidence], Iterator[str]]


def judge(evidence: Evidence) -> list[Breach]:
    return [Breach(name, what) for name, rule in RULES.items() for what in rule(evidence)]


def in_short(breaches: Sequence[Breach]) -> list[str]:
    """The first few of each rule, and how many more there are."""
    by_rule: defaultdict[str, list[str]] = defaultdict(list)
    for breach in breaches:
        by_rule[breach.rule].append(breach.what)
    lines: list[str] = []
    for rule, whats in by_rule.items():
        lines += [f"{rule}: {what}" for what in whats[:_SHOWN]]
        lines += [f"{rule}: … and {len(whats) - _SHOWN} more"] if len(whats) > _SHOWN else []
    return lines


# ── Fires ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _each_fire_once(evidence: Evidence) -> Iterator[str]:
    """Every expected (job, fire_time) has exactly one row or lies in one skipped range, and there are no others."""
    covers: defaultdict[str, Counter[datetime]] = defaultdict(Counter)
    ranges: defaultdict[str, list[Row]] = defaultdict(list)
    for row in evidence.rows:
        if row.trigger != "SCHEDULE":
            continue
        if row.skipped_until is None:
            covers[row.job][row.fire_time] += 1
        else:
            ranges[row.job].append(row)
    for job, versions in _versions_by_job(evidence).items():
        fires = expected(versions, until=evidence.until, answered_at=_answers(evidence, job, versions))
        for fire in sorted(fires.must):
            count = covers[job][fire] + sum(_covers(row, fire) for row in ranges[job])
            if count != 1:
                yield f"{job} at {fire:%H:%M:%S} has {count} rows"
        for fire, count in sorted(covers[job].items()):
            if fire <= evidence.until and fire not in fires.must and (fire not in fires.may or count > 1):
                yield f"{job} at {fire:%H:%M:%S} has {count} rows, and its schedule names no such fire"


def _covers(row: Row, fire: datetime) -> bool:
    return row.skipped_until is not None and row.fire_time <= fire <= row.skipped_until


def _versions_by_job(evidence: Evidence) -> dict[str, list[Version]]:
    by_job: defaultdict[str, list[Version]] = defaultdict(list)
    for version in sorted(evidence.versions, key=lambda each: each.number):
        by_job[version.job].append(version)
    return by_job


def _answers(evidence: Evidence, job: str, versions: Sequence[Version]) -> dict[int, datetime]:
    """When the caller who made a version had the answer in hand; missing where none came."""
    found: dict[int, datetime] = {}
    for entry in evidence.journal:
        if entry.job == job and entry.answered_at is not None and entry.deed in _CHANGING:
            for version in versions:
                if entry.sent_at <= version.changed_at.timestamp() <= entry.answered_at:
                    found[version.number] = moment(entry.answered_at)
    return found


_CHANGING = ("change", "pause", "resume", "create", "archive")


# ── Runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows_by_id(evidence: Evidence) -> dict[str, Row]:
    return {row.id: row for row in evidence.rows}


def _runs_by_attempt(evidence: Evidence) -> dict[tuple[str, int], list[Run]]:
    found: defaultdict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in evidence.runs:
        found[run.execution, run.attempt].append(run)
    return found


def _no_run_without_row(evidence: Evidence) -> Iterator[str]:
    rows = _rows_by_id(evidence)
    for run in evidence.runs:
        if run.execution not in rows:
            yield f"{run.job} ran as {run.execution}, of which there is no row"


def _no_row_without_end(evidence: Evidence) -> Iterator[str]:
    """Nothing is in limbo: what was due is over."""
    for row in _due(evidence):
        if row.state not in _OVER:
            why = row.reason or row.error or "no reason"
            yield f"{row.job} {row.id} is {row.state} at attempt {row.attempt}: {why}"


def _drained_in_time(evidence: Evidence) -> Iterator[str]:
    if evidence.drained_after is None or evidence.drained_after > DRAINED_WITHIN_SECONDS:
        yield f"{DRAINED_WITHIN_SECONDS:.0f} s after the last fault not all was over"


def _due(evidence: Evidence) -> Iterator[Row]:
    return (row for row in evidence.rows if row.fire_time <= evidence.until)


def _what_should_run_ran(evidence: Evidence) -> Iterator[str]:
    runs = _runs_by_attempt(evidence)
    attempts = {(each.execution, each.number): each for each in evidence.attempts}
    for row in _due(evidence):
        if row.state == "SUCCEEDED" and (row.id, row.attempt) not in runs:
            yield f"{row.job} {row.id} is SUCCEEDED, and its attempt {row.attempt} never ran"
        if row.state == "DEAD" and (row.id, row.attempt) not in attempts:
            yield f"{row.job} {row.id} is DEAD, and no attempt {row.attempt} was recorded"
        if row.state == "DEAD" and not any(run_of in runs for run_of in _attempts_of(row)):
            yield f"{row.job} {row.id} was given up and never ran: {row.error.splitlines()[-1:]}"


def _attempts_of(row: Row) -> list[tuple[str, int]]:
    return [(row.id, number) for number in range(1, row.attempt + 1)]


def _one_run_per_attempt(evidence: Evidence) -> Iterator[str]:
    for (execution, attempt), runs in _runs_by_attempt(evidence).items():
        if len(runs) > 1:
            yield f"{runs[0].job} {execution}: attempt {attempt} ran {len(runs)} times"


def _no_more_at_once_than_allowed(evidence: Evidence) -> Iterator[str]:
    """A run counts until its handler is done, or until it was recorded as lost: what a lost hand does then is known
    to nobody, and no limit can hold it."""
    ends = {(each.execution, each.number): each.finished_at.timestamp() for each in evidence.attempts}
    by_job: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for run in evidence.runs:
        if run.job in evidence.limits:
            recorded = ends.get((run.execution, run.attempt), float("inf"))
            end = min(recorded, float("inf") if run.ended_at is None else run.ended_at)
            if end > run.began_at:
                by_job[run.job] += [(run.began_at, 1), (end, -1)]
    for job, steps in by_job.items():
        at_once = most = 0
        for _, step in sorted(steps):
            at_once += step
            most = max(most, at_once)
        if most > evidence.limits[job]:
            yield f"{most} of {job} ran at once, and {evidence.limits[job]} may"


def _ends_agree(evidence: Evidence) -> Iterator[str]:
    """An end is recorded once, and says what the handler did."""
    rows, runs = _rows_by_id(evidence), _runs_by_attempt(evidence)
    attempts: defaultdict[tuple[str, int], list[Attempt]] = defaultdict(list)
    for each in evidence.attempts:
        attempts[each.execution, each.number].append(each)
    for (execution, number), records in attempts.items():
        if len(records) > 1:
            yield f"{execution}: attempt {number} is recorded {len(records)} times"
    for (execution, number), of_it in runs.items():
        row, records = rows.get(execution), attempts[execution, number]
        if row is None or row.fire_time > evidence.until or len(of_it) > 1:
            continue  # told by another rule, or not over yet
        if not records:
            yield f"{row.job} {execution}: attempt {number} ran and nothing is recorded of it"
        elif why := _disagreement(of_it[0], records[0], row):
            yield f"{row.job} {execution}: attempt {number} {why}"
    for row in _due(evidence):
        if row.state in ("SUCCEEDED", "DEAD"):
            yield from _last_word(row, attempts[row.id, row.attempt], runs.get((row.id, row.attempt), []))


def _disagreement(run: Run, record: Attempt, row: Row) -> str:
    match run.how, record.outcome:
        case ("ok", "SUCCEEDED") | ("failed", "FAILED") | ("stopped", "CANCELLED") | (_, "WORKER_LOST" | "TIMED_OUT"):
            return ""
        case ("ok" | "failed" | "", "CANCELLED") if row.cancel_requested_at is not None:
            return ""  # it was too late to stop it, or it was killed
        case ("ok", "FAILED") if _is_call(row):
            return ""  # the answer was lost on its way, and the call is made again
        case ("failed" | "", "FAILED") if row.cancel_requested_at is not None:
            return ""
        case "stopped", "FAILED" | "SUCCEEDED":
            return f"was stopped, and is recorded as {record.outcome}"
    return f"ended {run.how or 'without a word'}, and is recorded as {record.outcome}"


def _is_call(row: Row) -> bool:
    """Over HTTP: what its handler did is told by the receiver, and its answer may be lost on its way."""
    return row.job.startswith("call-")


def _last_word(row: Row, records: Sequence[Attempt], runs: Sequence[Run]) -> Iterator[str]:
    if not records:
        yield f"{row.job} {row.id} is {row.state}, and nothing is recorded of attempt {row.attempt}"
        return
    outcome = records[0].outcome
    if (row.state == "SUCCEEDED") != (outcome == "SUCCEEDED"):
        yield f"{row.job} {row.id} is {row.state}, and its last attempt is {outcome}"
    elif row.state == "SUCCEEDED" and runs and not _is_call(row) and row.result != {"token": runs[0].token}:
        yield f"{row.job} {row.id} keeps {row.result}, and its handler returned {runs[0].token}"


# ── What callers were told ───────────────────────────────────────────────────────────────────────────────────────────


def _nothing_accepted_is_missing(evidence: Evidence) -> Iterator[str]:
    rows, by_mark = _rows_by_id(evidence), Counter(row.mark for row in evidence.rows if row.mark)
    versions = {(version.job, version.number): version for version in evidence.versions}
    for entry in evidence.journal:
        if entry.deed == "run":
            if entry.execution and entry.execution not in rows:
                yield f"{entry.caller} was told that {entry.job} runs as {entry.execution}, of which there is no row"
            wanted = {"new": (1,), "given back": (0,), NOT_KNOWN: (0, 1)}.get(entry.outcome)
            if wanted is not None and by_mark[entry.mark] not in wanted:
                yield f"{entry.caller} asked once for {entry.job} ({entry.outcome}): {by_mark[entry.mark]} rows"
        elif entry.version is not None and (entry.job, entry.version) not in versions:
            yield f"{entry.caller} was told of version {entry.version} of {entry.job}, which is not there"


def _one_run_per_key(evidence: Evidence) -> Iterator[str]:
    """While a run with a key is not over, no other has it: of two that were made, the first was over before."""
    by_key: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in evidence.rows:
        if row.run_key:
            by_key[row.job, row.run_key].append(row)
    for (job, key), rows in by_key.items():
        is_open = [row.id for row in rows if row.state not in _OVER]
        if len(is_open) > 1:
            yield f"{len(is_open)} open runs of {job} have the key {key}"


def _cancelled_before_start_did_not_start(evidence: Evidence) -> Iterator[str]:
    rows, runs = _rows_by_id(evidence), _runs_by_attempt(evidence)
    for row in evidence.rows:
        # What ran was asked to stop; all others were cancelled while they waited for this attempt.
        if row.state == "CANCELLED" and row.cancel_requested_at is None and (row.id, row.attempt) in runs:
            yield f"{row.job} {row.id} was cancelled before its attempt {row.attempt}, which ran"
    for entry in evidence.journal:
        if entry.deed != "cancel" or entry.outcome != "cancelled" or entry.answered_at is None:
            continue
        found = rows.get(entry.execution)
        if found is None or found.state != "CANCELLED":
            yield f"{entry.execution} was cancelled, and is {found.state if found else 'gone'}"
        for run in evidence.runs:
            late = run.began_at - entry.answered_at
            if run.execution == entry.execution and late > 0:
                yield f"{run.job} {run.execution} was cancelled, and began {late:.2f} s later"


# ── The broker ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _queued_means_confirmed(evidence: Evidence) -> Iterator[str]:
    """Each time a row became QUEUED, a message of that attempt had arrived."""
    for (execution, attempt), marks in evidence.marks.items():
        copies = evidence.copies.get((execution, attempt), 0)
        if marks > copies:
            yield f"{execution}: attempt {attempt} became QUEUED {marks} times, and was published {copies} times"


def _processes_bear_it(evidence: Evidence) -> Iterator[str]:
    yield from evidence.findings


RULES: dict[str, Rule] = {
    "each fire once": _each_fire_once,
    "no run without a row": _no_run_without_row,
    "no row without an end": _no_row_without_end,
    "all over within a minute": _drained_in_time,
    "what should run ran": _what_should_run_ran,
    "one run per attempt": _one_run_per_attempt,
    "no more at once than allowed": _no_more_at_once_than_allowed,
    "ends agree": _ends_agree,
    "nothing accepted is missing": _nothing_accepted_is_missing,
    "one run per key": _one_run_per_key,
    "cancelled before it started": _cancelled_before_start_did_not_start,
    "queued means confirmed": _queued_means_confirmed,
    "processes bear it": _processes_bear_it,
}
