"""The judge of `./onbeat chaos` as a whole: silent where the promise was kept, and only there. Each rule has its story.

What one rule says in detail is in `test_chaos_judge_fires.py`, `…_runs.py`, `…_ends.py` and `…_callers.py`.
"""

from dataclasses import replace
from typing import Any

import pytest

from chaos.evidence import Evidence
from chaos.judge import RULES, Breach, in_short, judge
from chaos.ledger import Run
from tests.chaos_evidence import (
    FAILED,
    LOST,
    OK,
    STOPPED,
    UNTIL,
    asked_for,
    at,
    cancelled,
    clock,
    entry,
    fired,
    life,
    said,
    skipped,
    speaking,
    story,
    version,
)


def a_run_with_everything() -> Evidence:
    """One of each that a run of the harness has when all went well."""
    return story(
        *[fired(20), fired(40, ends=(LOST, OK)), fired(60, ends=(FAILED, FAILED, OK))],
        *[fired(30, "edited-tick"), skipped(40, 50), skipped(60, None)],
        *[fired(20, "limited-cancel", ends=(STOPPED,), cancel_requested_at=at(20.4)), fired(40, "limited-cancel")],
        *[fired(20, "limited-skip"), skipped(40, None, "limited-skip")],
        fired(20, "call-ok", ends=(("ok", "FAILED"), (None, "FAILED"), OK), result={"status": 200}),
        life("later", "call-later", ends=(("ok", "TIMED_OUT"), ("ok", "WORKER_LOST"), OK), result={"status": 202}),
        life("doomed", "doomed", ends=(FAILED, LOST, FAILED)),
        life("crash", "crash-always", ends=(LOST, (None, "WORKER_LOST"))),
        life("too long", "overtime", ends=(LOST, ("failed", "TIMED_OUT"))),
        life("asked", mark="m1", run_key="k1"),
        life("asked once more", fire=12, mark="m1 later", run_key="k1"),
        life("moved", trigger="DELAYED", fire=30, run_key="k3").sooner(10),
        life("called off", ends=(), state="CANCELLED", mark="m2", run_key="k2"),
        life("called off between", "asked-flaky", ends=(FAILED, (None, None)), state="CANCELLED"),
        life("stopped", "asked-slow", ends=(STOPPED,), cancel_requested_at=at(10), mark="m3"),
        life("in line", "limited", 10),
        life("next in line", "limited", 11),
        life("not due yet", fire=UNTIL + 1, ends=(), trigger="SCHEDULE", job="tick"),
        versions=[
            *[version(step=20), version(job="call-ok", step=20), version(2, "ARCHIVED", 25, step=20, job="call-ok")],
            *[version(job="edited-tick", step=30), version(2, "PAUSED", 35, step=10, job="edited-tick")],
            version(3, "RESUMED", 55, step=10, job="edited-tick"),
            *[version(job=job, step=20) for job in ("limited-cancel", "limited-skip")],
            *[version(2, "ARCHIVED", 50, step=20, job=job) for job in ("limited-cancel", "limited-skip")],
        ],
        journal=[
            entry("run", 9, 9.1, "new", execution="asked", mark="m1", run_key="k1"),
            entry("run", 9.2, 9.3, "given back", execution="asked", mark="m1 again", run_key="k1"),
            entry("run", 10.9, 11, "new", execution="asked once more", mark="m1 later", run_key="k1"),
            entry("run", 9, 9.1, "given back", execution="called off", mark="m2", run_key="k2"),
            entry("run", 9, None, job="asked-slow", mark="m3"),
            entry("run", 9, None, mark="of a run that was never made"),
            entry("move", 15, 15.1, "done", execution="moved"),
            cancelled("called off", 9.5),
            cancelled("called off between", 10.8),
            cancelled("stopped", 10, "asked to stop"),
            entry("pause", 34.9, 35.1, job="edited-tick", version=2),
            entry("resume", 54.9, 55.1, job="edited-tick", version=3),
            entry("change", 58, 58.1, "refused: it is over", job="edited-tick", step=5),
        ],
        limits={"limited": 1, "limited-cancel": 1, "limited-skip": 1},
        load={"tick": 20, "call-ok": 20, "limited-cancel": 20, "limited-skip": 20},
    )


def test_a_run_in_which_every_promise_was_kept_is_clean() -> None:
    assert said(a_run_with_everything()) == []


ONE = life()
GHOST = Run("ghost", 1, "asked", clock(10), clock(10.5), "ok", "token")
BROKEN = {
    "versions say what was asked for": story(load={"rare": 20}),
    "each fire once": story(fired(20, "rare"), fired(60, "rare"), versions=[version(job="rare")]),
    "a pause is one": story(
        *[fired(second, "edited-rare") for second in (20, 40, 60)],
        versions=[version(job="edited-rare"), version(2, "PAUSED", 10, job="edited-rare")],
        journal=[entry("pause", 9.9, 10.1, job="edited-rare", version=2)],
    ),
    "nothing left out without leave": story(skipped(20, 60, "rare"), versions=[version(job="rare")]),
    "no run without a row": story(runs=[GHOST]),
    "no run before its time": story(life(fire=30).sooner(10)),
    "no row without an end": story(life(ends=(), state="QUEUED")),
    "all over within a minute": story(drained_after=None),
    "what should run ran": story(life(ends=((None, "SUCCEEDED"),))),
    "one run per attempt": story(replace(ONE, runs=[*ONE.runs, *ONE.runs])),
    "one attempt after the other": story(life(ends=(OK, OK))),
    "no more at once than allowed": story(life("one"), life("two"), limits={"asked": 1}),
    "ends agree": story(life(ends=(("failed", "SUCCEEDED"),), result={"token": ""})),
    "every attempt is told": story(life(ends=((None, None), OK))),
    "given up only where that was to be": story(life(job="flaky-0", ends=(FAILED,))),
    "asked to stop, not tried again": story(
        life(ends=(FAILED, FAILED, OK), cancel_requested_at=at(10.3)), journal=[cancelled("one", 10.2, "asked to stop")]
    ),
    "nothing accepted is missing": story(journal=[asked_for("one", mark="m")]),
    "nothing that nobody asked for": story(ONE, are_asked_for=False),
    "one run per key": story(
        *[life("one", fire=30, mark="m", run_key="k"), life("two", fire=32, mark="n", run_key="k")],
        journal=[
            asked_for("one", fire=2, mark="m", run_key="k"),
            asked_for("two", fire=4, mark="n", run_key="k"),
        ],
    ),
    "cancelled before it started": story(life(ends=(FAILED,), state="CANCELLED"), journal=[cancelled("one", 9, None)]),
    "nothing cancelled without leave": story(life(ends=(), state="CANCELLED")),
    "queued means confirmed": story(ONE, marks={("one", 1): 2}, copies={("one", 1): 1}),
    "processes bear it": story(findings=["worker-1 ended by itself with 1; see worker-1.log"]),
}


def test_there_is_a_broken_story_for_each_rule() -> None:
    assert BROKEN.keys() == RULES.keys()


@pytest.mark.parametrize("rule", BROKEN)
def test_whoever_breaks_one_promise_hears_of_that_one_alone(rule: str) -> None:
    assert speaking(BROKEN[rule]) == [rule]


@pytest.mark.parametrize("rule", BROKEN)
def test_a_breach_is_found_within_a_run_where_all_else_went_well(rule: str) -> None:
    good, bad = a_run_with_everything(), BROKEN[rule]
    mixed: dict[str, Any] = {
        name: [*getattr(good, name), *getattr(bad, name)]
        for name in ("rows", "attempts", "runs", "journal", "findings", "versions")
    }
    for name in ("marks", "copies", "limits", "load"):
        mixed[name] = {**getattr(good, name), **getattr(bad, name)}
    assert rule in speaking(replace(good, drained_after=bad.drained_after, **mixed))


def test_breaches_come_in_the_order_of_the_rules() -> None:
    several = story(life(ends=(), state="QUEUED"), load={"rare": 20}, findings=["worker-1 ended"], drained_after=None)
    found = speaking(several)
    assert found == [rule for rule in RULES if rule in found]
    assert len(found) == 4


# ── Messages and processes ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("marks", "copies", "breaches"), [(1, 1, 0), (1, 2, 0), (2, 2, 0), (2, 1, 1), (1, 0, 1)])
def test_a_row_becomes_queued_no_more_often_than_its_message_arrived(marks: int, copies: int, breaches: int) -> None:
    counts: dict[str, Any] = {"marks": {("one", 1): marks}, "copies": {("one", 1): copies} if copies else {}}
    assert speaking(story(life(), **counts)) == ["queued means confirmed"] * breaches


def test_the_message_of_another_attempt_does_not_count() -> None:
    counts: dict[str, Any] = {"marks": {("one", 1): 1, ("one", 2): 1}, "copies": {("one", 1): 2}}
    found = said(story(life(ends=(FAILED, OK)), **counts))
    assert found == ["one: attempt 2 became QUEUED 1 times, and was published 0 times"]


def test_a_message_that_no_row_tells_of_is_no_breach() -> None:
    assert said(story(life(), marks={}, copies={("one", 1): 3, ("one", 2): 1})) == []


def test_what_the_harness_saw_is_told_as_it_stands() -> None:
    findings = ["beat-1 ended by itself with 1; see beat-1.log", "the caller rest of the harness failed"]
    assert judge(story(findings=findings)) == [Breach("processes bear it", each) for each in findings]


# ── In short ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_breach_reads_as_its_rule_and_what_happened() -> None:
    assert str(Breach("each fire once", "tick at 12:00:40 has 0 rows")) == "each fire once: tick at 12:00:40 has 0 rows"


def test_in_short_there_are_the_first_few_of_each_rule_and_how_many_more() -> None:
    breaches = [Breach("lost", str(n)) for n in range(15)] + [Breach("doubled", "one")]
    assert in_short(breaches) == [*(f"lost: {n}" for n in range(12)), "lost: … and 3 more", "doubled: one"]
    assert in_short(breaches[:12]) == [f"lost: {n}" for n in range(12)]
    assert in_short([]) == []
