"""Findings: their severity, and how the doctor counts and names."""

import pytest

from executions.broker_state import numbers
from executions.surroundings import without_logins
from terminal.doctor.findings import Examined, Fault, Severity, at_most, named, passed_by


@pytest.mark.parametrize(
    ("id_", "severity"),
    [("redis.E01", Severity.ERROR), ("redis.W01", Severity.WARNING), ("redis.N10", Severity.NOTE)],
)
def test_the_letter_of_an_id_is_its_severity(id_: str, severity: Severity) -> None:
    found = Fault(id_, means="m", remedy="r").found("It is so.", pid=7)
    assert (found.id, found.severity, found.says, found.facts) == (id_, severity, "It is so.", {"pid": 7})
    assert (found.means, found.remedy) == ("m", "r")


def test_an_area_is_as_bad_as_its_worst_finding() -> None:
    error, warning, note = (Fault(f"a.{letter}01", "", "").found("") for letter in "EWN")
    assert Examined("", [note, warning, error]).worst is Severity.ERROR
    assert Examined("", [note, warning]).worst is Severity.WARNING
    assert Examined("").worst is None
    assert passed_by("x") == Examined("not looked at: x", is_examined=False)


@pytest.mark.parametrize(
    ("count", "said"), [(1, "1 row"), (2, "2 rows"), (1000, "1,000 rows"), (1001, "More than 1,000 rows")]
)
def test_a_count_stops_at_its_limit(count: int, said: str) -> None:
    assert at_most(count, 1000, "row") == said


def test_of_many_names_the_first_are_told() -> None:
    assert named(["a", "b"]) == "a, b"
    assert named(["a", "b", "c"], 2) == "a, b and 1 more"


@pytest.mark.parametrize(
    ("version", "expected"), [("3.10.8", (3, 10)), ("4.3.0-rc.1", (4, 3)), ("4.3+1", (4,)), ("odd", ())]
)
def test_a_version_is_compared_by_its_first_two_numbers(version: str, expected: tuple[int, ...]) -> None:
    assert numbers(version) == expected


def test_what_others_say_is_shown_without_logins() -> None:
    said = "cannot reach amqp://me:pass@rabbit:5672/x, nor redis://:pass@redis"
    assert without_logins(said) == "cannot reach amqp://…@rabbit:5672/x, nor redis://…@redis"
    assert without_logins("user@example.com") == "user@example.com"
