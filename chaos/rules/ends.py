"""How it ended: recorded once, as the handler did it, and given up only where that was to be."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta

from chaos.evidence import Attempt, Evidence, Row, moment
from chaos.ledger import Run
from chaos.policies import allowed
from chaos.rules.runs import CLOCKS_DIFFER_SECONDS, attempts_by_execution, due, rows_by_id, runs_by_attempt

_UNANSWERED = timedelta(seconds=15)


def ends_agree(evidence: Evidence) -> Iterator[str]:
    """An end is recorded once, and says what the handler did."""
    rows, runs = rows_by_id(evidence), runs_by_attempt(evidence)
    attempts: defaultdict[tuple[str, int], list[Attempt]] = defaultdict(list)
    for each in evidence.attempts:
        attempts[each.execution, each.number].append(each)
    for (execution, number), records in attempts.items():
        if len(records) > 1:
            yield f"{execution}: attempt {number} is recorded {len(records)} times"
        if execution not in rows or number > rows[execution].attempt:
            yield f"{execution}: attempt {number} is recorded, and there is no such row"
        elif (execution, number) not in runs and not _may_end_unrun(records[0], rows[execution]):
            yield f"{execution}: attempt {number} is recorded as {records[0].outcome}, and never ran"
    for (execution, number), of_it in runs.items():
        row, records = rows.get(execution), attempts[execution, number]
        if row is None or row.fire_time > evidence.until or len(of_it) > 1:
            continue  # told by another rule, or not over yet
        if not records:
            yield f"{row.job} {execution}: attempt {number} ran and nothing is recorded of it"
        elif why := _disagreement(of_it[0], records[0], row):
            yield f"{row.job} {execution}: attempt {number} {why}"
    for row in due(evidence):
        yield from _last_word(row, attempts[row.id, row.attempt], runs.get((row.id, row.attempt), []))


def _may_end_unrun(record: Attempt, row: Row) -> bool:
    """A success that never ran is told by another rule."""
    match record.outcome:
        case "FAILED":
            return _is_call(row)  # it did not reach the receiver
        case "TIMED_OUT":
            return allowed(row.job).times_out
        case "CANCELLED":
            return row.cancel_requested_at is not None
    return True


def _disagreement(run: Run, record: Attempt, row: Row) -> str:
    was_asked_to_stop = row.cancel_requested_at is not None
    match run.how, record.outcome:
        case ("ok", "SUCCEEDED") | ("failed", "FAILED") | (_, "WORKER_LOST"):
            return ""
        case ("failed" | "stopped" | "", "TIMED_OUT") if allowed(row.job).times_out:
            return ""
        case ("ok", "TIMED_OUT") if allowed(row.job).times_out and _is_call(row):
            return ""  # it was accepted, and nobody told its end
        case (_, "CANCELLED") if was_asked_to_stop:
            return ""  # stopped; or it was too late to stop it, or it was killed
        case ("ok", "FAILED") if _is_call(row):
            return ""  # the answer was lost on its way, and the call is made again
        case ("", "FAILED") if was_asked_to_stop:
            return ""
    return f"ended {run.how or 'without a word'}, and is recorded as {record.outcome}"


def _is_call(row: Row) -> bool:
    """Over HTTP: what its handler did is told by the receiver, and its answer may be lost on its way."""
    return row.job.startswith("call-")


def _last_word(row: Row, records: Sequence[Attempt], runs: Sequence[Run]) -> Iterator[str]:
    outcome = records[0].outcome if records else "nothing"
    match row.state, outcome:
        case ("SUCCEEDED" | "DEAD", "nothing"):
            yield f"{row.job} {row.id} is {row.state}, and nothing is recorded of attempt {row.attempt}"
        case ("SUCCEEDED", last) if last != "SUCCEEDED":
            yield f"{row.job} {row.id} is SUCCEEDED, and its last attempt is {last}"
        case ("DEAD" | "CANCELLED", "SUCCEEDED"):
            yield f"{row.job} {row.id} is {row.state}, and its last attempt is SUCCEEDED"
        case ("SKIPPED", last) if last != "nothing" or runs:
            yield f"{row.job} {row.id} is SKIPPED, and its attempt {row.attempt} ran or is recorded as {last}"
        case ("SUCCEEDED", _) if runs and not _is_call(row) and row.result != {"token": runs[0].token}:
            yield f"{row.job} {row.id} keeps {row.result}, and its handler returned {runs[0].token}"


def every_attempt_is_told(evidence: Evidence) -> Iterator[str]:
    """From the first to the last; the last is missing where it was cancelled or skipped before it began."""
    attempts = attempts_by_execution(evidence)
    for row in due(evidence):
        told = [each.number for each in attempts.get(row.id, [])]
        whole = list(range(1, row.attempt + 1))
        may_lack_last = row.state not in ("SUCCEEDED", "DEAD")
        if told != whole and not (may_lack_last and told == whole[:-1]) and len(told) == len(set(told)):
            yield f"{row.job} {row.id} is at attempt {row.attempt}, and told are {told}"


def given_up_only_where_that_was_to_be(evidence: Evidence) -> Iterator[str]:
    """The others may be tried a thousand times, so that nothing but a mistake gives them up."""
    attempts = attempts_by_execution(evidence)
    for row in due(evidence):
        if row.state != "DEAD":
            continue
        leave, outcomes = allowed(row.job), Counter(each.outcome for each in attempts.get(row.id, []))
        failures = outcomes["FAILED"] + outcomes["TIMED_OUT"]
        if (leave.fails, leave.is_lost) == (None, None):
            yield f"{row.job} {row.id} was given up after {dict(outcomes)}"
        elif leave.fails is not None and failures != leave.fails:
            yield f"{row.job} {row.id} was given up after {failures} failures, and {leave.fails} are allowed"
        elif leave.is_lost is not None and outcomes["WORKER_LOST"] != leave.is_lost:
            yield f"{row.job} {row.id} was given up after {dict(outcomes)}, and {leave.is_lost} losses are allowed"


def who_was_asked_to_stop_is_not_tried_again(evidence: Evidence) -> Iterator[str]:
    """From the moment at which the asker was told so. Without an answer the row says when it was asked, and its asker
    may have waited long between that and the commit."""
    rows = rows_by_id(evidence)
    known = {
        entry.execution: moment(entry.answered_at)
        for entry in evidence.journal
        if entry.deed == "cancel" and entry.outcome == "asked to stop" and entry.answered_at is not None
    }
    for each in evidence.attempts:
        asked_at = rows[each.execution].cancel_requested_at if each.execution in rows else None
        if asked_at is None:
            continue
        from_when = known.get(each.execution, asked_at + _UNANSWERED)
        if (each.started_at - from_when).total_seconds() > CLOCKS_DIFFER_SECONDS:
            yield f"{each.execution} was asked to stop, and its attempt {each.number} began after that"
