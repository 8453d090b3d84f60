"""The page for whoever is on call names each verdict and each effect of a clock change, and no other."""

from jobs.clock_changes import Effect
from jobs.verdicts import Verdict
from tests.unit.doc_pages import page, section, tables

PAGE = page("how-to/find-out-why-it-did-not-run.md")


def test_the_table_of_verdicts_is_that_of_the_code() -> None:
    (table,) = tables(section(PAGE, "Verdicts"))
    assert [row[0] for row in table] == [verdict.value for verdict in Verdict]
    assert all(row[1] for row in table)


def test_the_table_of_effects_is_that_of_the_code() -> None:
    (table,) = tables(section(PAGE, "See whom the next clock change touches"))
    assert [row[0] for row in table] == [effect.value for effect in Effect]
