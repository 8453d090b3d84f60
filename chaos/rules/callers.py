"""What callers were told is so."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from chaos.evidence import Evidence, Row
from chaos.journal import NOT_KNOWN, Entry
from chaos.policies import allowed
from chaos.rules.runs import rows_by_id, runs_by_attempt


def nothing_accepted_is_missing(evidence: Evidence) -> Iterator[str]:
    rows, by_mark = rows_by_id(evidence), Counter(row.mark for row in evidence.rows if row.mark)
    versions = {(version.job, version.number) for version in evidence.versions}
    for entry in evidence.journal:
        if entry.deed == "run":
            row = rows.get(entry.execution)
            if entry.execution and row is None:
                yield f"{entry.caller} was told that {entry.job} runs as {entry.execution}, of which there is no row"
            elif row is not None and not _is_what_was_told(entry, row):
                yield f"{entry.caller} was told ({entry.outcome}) of {entry.execution}, which is another run"
            found = by_mark[entry.mark] - _over_before_the_answer(entry, evidence)
            # Who asks again by its key after a lost answer is given back its own.
            is_own = entry.outcome == "given back" and row is not None and row.mark == entry.mark
            wanted = {"new": (1,), "given back": (1,) if is_own else (0,), NOT_KNOWN: (0, 1)}.get(entry.outcome)
            if wanted is not None and found not in wanted:
                yield f"{entry.caller} asked once for {entry.job} ({entry.outcome}): {found} rows"
        elif entry.version is not None and (entry.job, entry.version) not in versions:
            yield f"{entry.caller} was told of version {entry.version} of {entry.job}, which is not there"


def _is_what_was_told(entry: Entry, row: Row) -> bool:
    is_its_own = row.mark == entry.mark if entry.outcome == "new" else row.run_key == entry.run_key
    return is_its_own and row.job == entry.job


def _over_before_the_answer(entry: Entry, evidence: Evidence) -> int:
    """Runs of the same asking that are none of its answer: who asks by a key until there is an answer may have made one
    before, which was over and had freed the key by then."""
    if not entry.run_key or entry.answered_at is None:
        return 0
    others = (row for row in evidence.rows if row.mark == entry.mark and row.id != entry.execution)
    return sum(row.finished_at is not None and row.finished_at.timestamp() <= entry.answered_at for row in others)


def nothing_ran_that_nobody_asked_for(evidence: Evidence) -> Iterator[str]:
    asked = {entry.mark for entry in evidence.journal if entry.deed == "run"}
    for row in evidence.rows:
        if row.trigger != "SCHEDULE" and row.mark not in asked:
            yield f"{row.job} {row.id} is a run that nobody asked for"


def one_run_per_key(evidence: Evidence) -> Iterator[str]:
    """While a run with a key is not over, no other has it: of two that were made, the first was over before."""
    rows = rows_by_id(evidence)
    made: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in evidence.journal:
        if entry.deed == "run" and entry.outcome == "new" and entry.run_key and entry.execution in rows:
            made[entry.job, entry.run_key].append(entry)
    for (job, key), entries in made.items():
        entries.sort(key=lambda entry: entry.answered_at or 0.0)
        for first, second in pairwise(entries):
            ended_at = rows[first.execution].finished_at
            if ended_at is None or (second.answered_at or 0.0) < ended_at.timestamp():
                yield f"{job} has two runs of the key {key}: {first.execution} was not over"


def cancelled_before_start_did_not_start(evidence: Evidence) -> Iterator[str]:
    rows, runs = rows_by_id(evidence), runs_by_attempt(evidence)
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
            # An earlier attempt may be in a lost hand, which goes on when it thaws.
            is_that = run.execution == entry.execution and (found is None or run.attempt >= found.attempt)
            if is_that and late > 0:
                yield f"{run.job} {run.execution} was cancelled, and began {late:.2f} s later"


def nothing_cancelled_without_leave(evidence: Evidence) -> Iterator[str]:
    """By whoever asked for it, heard or not, or by the overlap policy of its job."""
    asked = {entry.execution for entry in evidence.journal if entry.deed == "cancel"}
    for row in evidence.rows:
        was_stopped = row.state == "CANCELLED" or row.cancel_requested_at is not None
        if was_stopped and row.id not in asked and not allowed(row.job).is_cancelled:
            yield f"{row.job} {row.id} was cancelled, and nobody asked for it"
