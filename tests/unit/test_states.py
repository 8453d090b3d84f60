"""The table of transitions is the design's."""

from itertools import product

import pytest

from executions.states import CLAIMABLE, FINAL, TRANSITIONS, State, is_allowed

# DESIGN §4, one pair per step.
DESIGNED = {
    ("SCHEDULED", "QUEUED"),
    ("SCHEDULED", "RUNNING"),
    ("QUEUED", "RUNNING"),
    ("QUEUED", "SCHEDULED"),
    ("RUNNING", "SUCCEEDED"),
    ("RUNNING", "DEAD"),
    ("RUNNING", "CANCELLED"),
    ("RUNNING", "SCHEDULED"),
    ("SCHEDULED", "CANCELLED"),
    ("QUEUED", "CANCELLED"),
    ("SCHEDULED", "SKIPPED"),
    ("SKIPPED", "SCHEDULED"),
}


def test_the_transitions_are_those_of_the_design() -> None:
    assert {(step.source.value, step.target.value) for step in TRANSITIONS} == DESIGNED


def test_each_transition_stands_in_the_table_once_and_says_when_it_happens() -> None:
    assert len(TRANSITIONS) == len(DESIGNED)
    assert all(step.when for step in TRANSITIONS)


def test_the_final_states_are_those_that_nothing_leaves() -> None:
    assert frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED}) == FINAL


def test_what_waits_can_be_claimed() -> None:
    assert set(CLAIMABLE) == {State.SCHEDULED, State.QUEUED}


@pytest.mark.parametrize(("source", "target"), list(product(State, State)))
def test_a_step_is_allowed_if_and_only_if_the_design_has_it(source: State, target: State) -> None:
    assert is_allowed(source, target) is ((source.value, target.value) in DESIGNED)
