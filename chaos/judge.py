"""Compares what should have happened with what did. Pure: evidence in, breaches out."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chaos.evidence import Evidence
from chaos.rules import callers, ends, fires, runs

_SHOWN = 12


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


def _queued_means_confirmed(evidence: Evidence) -> Iterator[str]:
    """Each time a row became QUEUED, a message of that attempt had arrived."""
    for (execution, attempt), marks in evidence.marks.items():
        copies = evidence.copies.get((execution, attempt), 0)
        if marks > copies:
            yield f"{execution}: attempt {attempt} became QUEUED {marks} times, and was published {copies} times"


def _processes_bear_it(evidence: Evidence) -> Iterator[str]:
    yield from evidence.findings


RULES: dict[str, Rule] = {
    "versions say what was asked for": fires.versions_say_what_was_asked_for,
    "each fire once": fires.each_fire_once,
    "a pause is one": fires.a_pause_is_one,
    "nothing left out without leave": fires.nothing_left_out_without_leave,
    "no run without a row": runs.no_run_without_row,
    "no run before its time": runs.no_run_before_its_time,
    "no row without an end": runs.no_row_without_end,
    "all over within a minute": runs.drained_in_time,
    "what should run ran": runs.what_should_run_ran,
    "one run per attempt": runs.one_run_per_attempt,
    "one attempt after the other": runs.one_attempt_after_the_other,
    "no more at once than allowed": runs.no_more_at_once_than_allowed,
    "ends agree": ends.ends_agree,
    "every attempt is told": ends.every_attempt_is_told,
    "given up only where that was to be": ends.given_up_only_where_that_was_to_be,
    "asked to stop, not tried again": ends.who_was_asked_to_stop_is_not_tried_again,
    "nothing accepted is missing": callers.nothing_accepted_is_missing,
    "nothing that nobody asked for": callers.nothing_ran_that_nobody_asked_for,
    "one run per key": callers.one_run_per_key,
    "cancelled before it started": callers.cancelled_before_start_did_not_start,
    "nothing cancelled without leave": callers.nothing_cancelled_without_leave,
    "queued means confirmed": _queued_means_confirmed,
    "processes bear it": _processes_bear_it,
}
