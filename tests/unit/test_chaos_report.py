"""What `./onbeat chaos` tells about a run: percentiles, lateness after a kill, and the words for clean and broken."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.evidence import Evidence
from chaos.judge import Breach
from chaos.plan import Crew, Fault
from chaos.report import facts, in_words
from chaos.run import Verdict
from chaos.striking import Struck
from chaos.tap import percentiles
from tests.chaos_evidence import FAILED, OK, UNTIL, asked_for, clock, entry, fired, life, skipped, story

CREW = Crew(("beat-1", "beat-2"), ("worker-1", "worker-2", "callbacks"))


def verdict(evidence: Evidence, **told: Any) -> Verdict:
    return Verdict(seed=7, seconds=60, crew=CREW, evidence=evidence, **{"struck": [], "arrived_at": {}, **told})


def struck(kind: str, at: float, *, has_struck: bool = True) -> Struck:
    return Struck(Fault(at, kind, "beat-1", 0), clock(at), clock(at + 1), has_struck)


def lateness(*times: tuple[float, float], kills: tuple[Struck, ...] = (), trigger: str = "SCHEDULE") -> dict[str, Any]:
    """Of fires, each with the moment at which the broker had its message."""
    rows = [fired(fire).with_row(trigger=trigger) for fire, _ in times]
    arrived = {(one.row.id, 1): clock(moment) for one, (_, moment) in zip(rows, times, strict=True)}
    return facts(verdict(story(*rows), arrived_at=arrived, struck=kills))


# ── Percentiles ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_nothing_there_are_no_percentiles() -> None:
    assert percentiles([]) == {}


def test_of_one_value_all_percentiles_are_that_value() -> None:
    assert percentiles([0.25]) == {"p50": 0.25, "p90": 0.25, "p99": 0.25, "p100": 0.25}


def test_so_many_of_a_hundred_lie_below_a_percentile() -> None:
    assert percentiles(range(100, 0, -1)) == {"p50": 51, "p90": 91, "p99": 100, "p100": 100}


def test_other_percentiles_are_told_on_request_and_to_the_millisecond() -> None:
    assert percentiles([0.12345, 2.0], at=(0, 99.9)) == {"p0": 0.123, "p99.9": 2.0}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=300))
def test_percentiles_are_values_in_order_and_the_last_is_the_largest(values: list[float]) -> None:
    told = list(percentiles(values).values())
    assert told == sorted(told)
    assert told[-1] == round(max(values), 3)
    assert set(told) <= {round(value, 3) for value in values}
    for share, value in percentiles(values, at=(50, 90, 99)).items():
        below = sum(round(each, 3) < value for each in values)
        assert below <= len(values) * int(share[1:]) / 100  # no larger one could be told


# ── Lateness ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lateness_is_from_the_time_of_a_fire_until_the_broker_had_it() -> None:
    assert lateness((20, 20.5), (40, 40.125))["lateness_s"] == {"p50": 0.5, "p90": 0.5, "p99": 0.5, "p100": 0.5}


def test_a_message_that_came_before_its_time_is_not_late() -> None:
    assert lateness((20, 19.9))["lateness_s"]["p100"] == 0


def test_a_fire_from_before_the_beginning_is_left_out() -> None:
    assert lateness((-5, 3), (0, 3))["lateness_s"] == {}


def test_what_somebody_asked_for_is_no_fire_that_could_be_late() -> None:
    assert lateness((20, 25), trigger="MANUAL")["lateness_s"] == {}


def test_a_fire_that_was_never_published_and_a_later_attempt_are_not_late() -> None:
    one, never = fired(20, ends=(FAILED, OK)), fired(40)
    told = facts(verdict(story(one, never), arrived_at={(one.row.id, 1): clock(21), (one.row.id, 2): clock(50)}))
    assert told["lateness_s"]["p100"] == 1


@pytest.mark.parametrize("kind", ["beat killed", "beat killed at a step"])
@pytest.mark.parametrize(
    ("fire", "counts"), [(28.9, False), (29, True), (30, True), (36, True), (36.1, False)], ids=str
)
def test_after_a_kill_the_fires_of_the_next_seconds_are_looked_at(kind: str, fire: float, counts: bool) -> None:
    told = lateness((fire, fire + 2), (50, 50), kills=(struck(kind, 30),))
    assert told["lateness_after_a_killed_beat_s"] == ({} if not counts else dict.fromkeys(told["lateness_s"], 2.0))


@pytest.mark.parametrize(
    "other", [struck("beat killed", 30, has_struck=False), struck("worker killed", 30), struck("beat frozen", 30)]
)
def test_a_kill_that_struck_nobody_and_other_faults_are_no_kill_of_a_beat(other: Struck) -> None:
    assert lateness((31, 32), kills=(other,))["lateness_after_a_killed_beat_s"] == {}


def test_a_fire_after_two_kills_is_counted_once() -> None:
    kills = (struck("beat killed", 30), struck("beat killed", 31))
    told = lateness((32, 33), (36.5, 39.5), kills=kills)  # the second fire follows the second kill alone
    assert told["lateness_after_a_killed_beat_s"] == told["lateness_s"]
    assert told["lateness_s"]["p50"] == 3


# ── Facts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def a_verdict(**told: Any) -> Verdict:
    one = fired(20, ends=(FAILED, OK))
    evidence = story(
        *[one, skipped(40, 60), fired(UNTIL + 5, ends=(), state="SCHEDULED"), life("asked", mark="m")],
        journal=[asked_for("asked", mark="m"), entry("run", 9, None), entry("pause", 9, 9.1)],
        copies={(one.row.id, 1): 3, (one.row.id, 2): 1, ("asked", 1): 1},
        drained_after=4.24,
    )
    faults = [struck("beat killed", 5), struck("beat killed", 15), struck("line cut", 9, has_struck=False)]
    return verdict(evidence, **{"struck": faults, "arrived_at": {(one.row.id, 1): clock(20.75)}, **told})


def test_the_facts_of_a_run_are_counted() -> None:
    told = facts(a_verdict(starts={"beat-1": 3}))
    assert (told["seed"], told["seconds"], told["beats"], told["workers"]) == (7, 60, 2, 3)
    assert (told["fires"], told["asked_for"]) == (2, 1)
    assert told["states"] == {"SKIPPED": 1, "SUCCEEDED": 2}
    assert (told["runs"], told["attempts"]) == (3, {"FAILED": 1, "SUCCEEDED": 2})
    assert (told["messages"], told["published_twice"]) == (5, 2)
    assert (told["deeds"], told["unanswered"]) == ({"pause": 1, "run": 2}, 1)
    assert (told["faults"], told["struck_nobody"]) == ({"beat killed": 2}, 1)
    assert (told["starts"], told["drained_after_s"]) == ({"beat-1": 3}, 4.2)
    assert told["breaches"] == []


def test_the_facts_can_be_told_as_json() -> None:
    told = facts(a_verdict(breaches=[Breach("each fire once", "tick at 12:00:40 has 0 rows")]))
    assert json.loads(json.dumps(told)) == told
    assert told["breaches"] == ["each fire once: tick at 12:00:40 has 0 rows"]


# ── Words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_clean_run_says_so_in_its_last_line() -> None:
    assert in_words(a_verdict()).splitlines() == [
        "seed 7, 60 s, 2 beats, 3 workers",
        "  fires      2 rows of schedules, 1 asked for: SKIPPED 1, SUCCEEDED 2",
        "  runs       3 by handlers; attempts: FAILED 1, SUCCEEDED 2",
        "  messages   5, 2 of them published again",
        "  callers    pause 1, run 2; 1 without an answer",
        "  faults     2, and 1 that struck nobody",
        "       2  beat killed",
        "  lateness   p50 0.75, p90 0.75, p99 0.75, p100 0.75 s; after a killed beat "
        "p50 0.75, p90 0.75, p99 0.75, p100 0.75",
        "  all over   4.2 s after the last fault",
        "CLEAN: every fire once, every run accounted for.",
    ]


def test_a_broken_run_says_how_often_and_how_and_is_never_called_clean() -> None:
    breaches = [Breach("each fire once", f"fire {n}") for n in range(14)] + [Breach("ends agree", "one")]
    words = in_words(a_verdict(breaches=breaches))
    assert "CLEAN" not in words
    assert words.splitlines()[-15:] == [
        "BROKEN: 15 breaches.",
        *(f"  each fire once: fire {n}" for n in range(12)),
        "  each fire once: … and 2 more",
        "  ends agree: one",
    ]


def test_without_a_killed_beat_there_is_no_lateness_after_one() -> None:
    assert "after a killed beat none" in in_words(a_verdict(struck=[]))


def test_a_run_that_did_not_come_to_rest_says_so() -> None:
    restless = a_verdict()
    restless = replace(restless, evidence=replace(restless.evidence, drained_after=None))
    assert "  all over   not within 60 s" in in_words(restless).splitlines()
    assert facts(restless)["drained_after_s"] is None
