"""Which faults `./onbeat chaos` strikes with: all kinds, whom they are for, one at a time, and the same for a seed."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import chaos
from chaos.plan import BEAT_STEPS, KINDS, SERVERS, WORKER_STEPS, Crew, Fault, crew_of, plan

SEEDS = range(40)
LENGTHS = [20.0, 60.0, 300.0, 1800.0]
LARGE = Crew(("beat-1", "beat-2", "beat-3", "beat-4"), ("worker-1", "worker-2", "callbacks"))
# The moments of a plan are told to a tenth of a second.
ROUNDED = 0.1


def plan_of(seed: int, seconds: float = 300) -> list[Fault]:
    return plan(seed, seconds, crew_of(seed))


def plans(seconds: float) -> Iterator[tuple[Crew, list[Fault]]]:
    for seed in SEEDS:
        yield crew_of(seed), plan_of(seed, seconds)


# ── The seed ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_seed_gives_the_same_plan_to_the_last_draw() -> None:
    assert plan_of(7) == plan_of(7)
    assert [fault.draw for fault in plan_of(7)] == [fault.draw for fault in plan_of(7)]


def test_the_same_seed_gives_the_same_plan_in_another_process() -> None:
    """Strings hash differently there: nothing may depend on the order of a set."""
    words = "from chaos.plan import crew_of, plan; [print(each) for each in plan(7, 300, crew_of(7))]"
    told = subprocess.run(
        [sys.executable, "-c", words],
        cwd=Path(chaos.__file__).parents[1],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == [str(fault) for fault in plan_of(7)]


def test_another_seed_gives_another_plan_for_the_same_crew() -> None:
    assert len({tuple(plan(seed, 300, LARGE)) for seed in SEEDS}) == len(SEEDS)


def test_a_longer_run_of_the_same_seed_has_more_faults() -> None:
    assert len(plan_of(7, 60)) < len(plan_of(7, 300)) < len(plan_of(7, 1800))


# ── The crew ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_crew_has_two_to_four_beats_and_two_or_three_workers() -> None:
    sizes = {(len(crew.beats), len(crew.workers)) for crew in map(crew_of, range(300))}
    assert sizes == {(beats, workers) for beats in (2, 3, 4) for workers in (2, 3)}


def test_the_same_seed_gives_the_same_crew() -> None:
    assert crew_of(7) == crew_of(7)


def test_everybody_of_a_crew_has_a_name_of_its_own() -> None:
    for seed in SEEDS:
        crew = crew_of(seed)
        names = [*crew.everybody, crew.app, *SERVERS]
        assert len(set(names)) == len(names)
        assert {*crew.beats, *crew.workers, crew.web} == set(crew.everybody)


# ── What strikes ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_kind_of_fault_strikes_within_five_minutes() -> None:
    for _, faults in plans(300):
        assert {fault.kind for fault in faults} == KINDS.keys()


def test_no_kind_comes_again_before_all_others_had_their_turn() -> None:
    for _, faults in plans(1800):
        for start in range(0, len(faults) - len(KINDS) + 1, len(KINDS)):
            assert {fault.kind for fault in faults[start : start + len(KINDS)]} == KINDS.keys()


@pytest.mark.parametrize("seconds", LENGTHS)
def test_no_run_is_quiet(seconds: float) -> None:
    for _, faults in plans(seconds):
        assert faults[0].at < 10
        assert max(later.at - earlier.at for earlier, later in pairwise(faults)) < 30


def test_a_short_run_is_dealt_faster_and_a_long_one_not_without_end() -> None:
    for seed in SEEDS:
        assert len(plan_of(seed, 60)) > 0.6 * len(KINDS)
        assert 1800 / 5 < len(plan_of(seed, 1800)) < 1800 / 3


def test_only_the_kinds_that_somebody_names_strike() -> None:
    wanted = {"beat killed", "Redis flushed"}
    assert {fault.kind for fault in plan(7, 300, LARGE, wanted)} == wanted
    assert plan(7, 300, LARGE, ["Redis flushed", "beat killed"]) == plan(
        7, 300, LARGE, ["beat killed", "Redis flushed"]
    )


def test_a_fault_strikes_whom_its_kind_is_for() -> None:
    for crew, faults in plans(300):
        allowed = {
            "beat": crew.beats,
            "beat with a clock": crew.beats[:1],
            "worker": crew.workers,
            "anybody": (*crew.beats, *crew.workers, crew.web, crew.app),
        }
        for fault in faults:
            whom = KINDS[fault.kind].whom
            assert fault.whom in allowed.get(whom, (whom,))


def test_everybody_and_every_line_is_struck_by_and_by() -> None:
    struck, lines = set(), set()
    for seed in SEEDS:
        for fault in plan(seed, 1800, LARGE):
            struck.add(fault.whom)
            if KINDS[fault.kind].whom == "anybody":
                lines.add((fault.whom, fault.detail))
    assert struck >= {*LARGE.everybody, LARGE.app, *SERVERS, "receiver", "callers"}
    assert lines == {(name, server) for name in (*LARGE.everybody, LARGE.app) for server in SERVERS}


def test_a_fault_lasts_as_long_as_its_kind_may_and_says_which_of_its_details() -> None:
    for _, faults in plans(300):
        for fault in faults:
            shortest, longest = KINDS[fault.kind].seconds
            assert shortest <= fault.seconds <= longest
            assert fault.detail in KINDS[fault.kind].details
            assert 0 <= fault.draw < 1


def test_every_step_of_a_beat_and_of_a_worker_is_hit_by_and_by() -> None:
    hit = defaultdict(set)
    for seed in SEEDS:
        for fault in plan(seed, 1800, LARGE):
            hit[fault.kind].add(fault.detail)
    assert hit["beat killed at a step"] == hit["beat frozen at a step"] == set(BEAT_STEPS)
    for kind in ("worker killed at a step", "child killed at a step", "child frozen at a step"):
        assert hit[kind] == set(WORKER_STEPS)


# ── When ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", LENGTHS)
def test_nobody_is_struck_by_two_at_once(seconds: float) -> None:
    for _, faults in plans(seconds):
        well_at: dict[str, float] = {}
        for fault in faults:
            kind = KINDS[fault.kind]
            for name in (fault.whom, *kind.besides):
                assert well_at.get(name, 0) <= fault.at + ROUNDED, fault
                well_at[name] = fault.at + fault.seconds + kind.until_well


def test_a_fault_that_strikes_several_keeps_all_of_them_from_others() -> None:
    """A disk that is full is everybody's: only what strikes none of its three servers may come meanwhile."""
    kind = KINDS["the disk full"]
    assert {kind.whom, *kind.besides} == set(SERVERS)
    meanwhile = [
        other.whom
        for _, faults in plans(1800)
        for fault in faults
        if fault.kind == "the disk full"
        for other in faults
        if other is not fault and fault.at < other.at < fault.at + fault.seconds + kind.until_well - ROUNDED
    ]
    assert meanwhile
    assert not set(meanwhile) & set(SERVERS)


@pytest.mark.parametrize("seconds", LENGTHS)
def test_all_faults_are_over_before_the_run_is(seconds: float) -> None:
    for _, faults in plans(seconds):
        assert all(fault.at > 0 and fault.at + fault.seconds < seconds for fault in faults)


def test_faults_come_in_the_order_of_their_time() -> None:
    for _, faults in plans(300):
        assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)


def test_who_needs_longer_than_there_is_time_is_left_alone() -> None:
    assert plan(7, 5, LARGE, ["worker killed at a step"]) == []  # it takes four seconds, and the end is quiet


# ── In words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(3.04, "beat killed", "beat-1", 0), "   3.0 s  beat killed: beat-1"),
        (Fault(12.3, "line cut", "app", 2.5, "redis"), "  12.3 s  line cut: app (redis) for 2.5 s"),
        (Fault(123.0, "web frozen", "web", 1.0), " 123.0 s  web frozen: web for 1.0 s"),
    ],
)
def test_a_fault_reads_as_a_line(fault: Fault, words: str) -> None:
    assert str(fault) == words
