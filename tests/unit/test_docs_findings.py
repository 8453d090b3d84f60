"""The page of findings says what the code says, for each id."""

import re

import pytest

from terminal.doctor.examinations import AREAS, NOT_EXAMINED
from terminal.doctor.findings import Fault, Severity
from terminal.frame import Exit
from tests.unit.doc_pages import blocks, page, section, tables

PAGE = "reference/findings.md"
FAULTS = {area.name: area.faults for area in AREAS if area.faults}


def rows(heading: str) -> list[list[str]]:
    return [row for table in tables(section(page(PAGE), heading)) for row in table]


def as_row(fault: Fault) -> list[str]:
    return [fault.id, fault.severity.lower(), fault.means.replace("`", ""), fault.remedy.replace("`", "")]


@pytest.mark.parametrize("area", FAULTS)
def test_each_area_has_its_findings_on_the_page(area: str) -> None:
    assert rows(area) == [as_row(fault) for fault in FAULTS[area]]


def test_what_could_not_be_examined_is_on_the_page() -> None:
    assert rows("doctor") == [as_row(NOT_EXAMINED)]


def test_an_id_is_given_once_and_names_its_area_and_severity() -> None:
    ids = [fault.id for faults in FAULTS.values() for fault in faults]
    assert len(ids) == len(set(ids)) > 45
    for area, faults in FAULTS.items():
        assert all(re.fullmatch(rf"{area}\.[EWN]\d\d", fault.id) for fault in faults)


def test_ids_are_numbered_without_gaps() -> None:
    for faults in FAULTS.values():
        for letter in "EWN":
            numbers = [int(fault.id[-2:]) for fault in faults if fault.id[-3] == letter]
            assert numbers == list(range(1, len(numbers) + 1))


def test_each_area_is_told_of_on_the_page() -> None:
    told = dict(tables(section(page(PAGE), "Areas"))[0])
    assert told == {area.name: area.looks_at for area in AREAS}


# ── How to ───────────────────────────────────────────────────────────────────────────────────────────────────────

HOW_TO = "how-to/examine-an-installation.md"


def test_the_areas_and_findings_that_the_how_to_names_are_there() -> None:
    text = page(HOW_TO)
    assert set(re.findall(r"--only ([a-z]+)", text)) <= {area.name for area in AREAS}
    ids = {fault.id for faults in FAULTS.values() for fault in faults}
    assert set(re.findall(r"\b[a-z]+\.[EWN]\d\d\b", text)) <= ids
    shown = [line.split()[1] for line in blocks(text)[1].splitlines() if line.startswith(("✓", "!", "✗"))]
    assert shown == [area.name for area in AREAS if area.name != "folder"]


def test_a_finding_that_the_how_to_shows_is_that_of_the_code() -> None:
    (fault,) = [fault for fault in FAULTS["rabbitmq"] if fault.id == "rabbitmq.E05"]
    shown = blocks(page(HOW_TO))[1]
    assert f"means   {fault.means}\n" in shown
    assert f"remedy  {fault.remedy}\n" in shown


def test_the_exit_codes_of_the_how_to_are_those_of_the_code() -> None:
    (table,) = tables(page(HOW_TO))
    assert {row[0]: int(row[2]) for row in table} == {
        severity.lower(): int(Exit.FAILED if severity is Severity.ERROR else Exit.DONE) for severity in Severity
    }
