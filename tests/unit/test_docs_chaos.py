"""The page about chaos names every fault that can strike and every rule that is compared, and no others."""

from chaos.judge import RULES
from chaos.plan import KINDS
from tests.unit.doc_pages import page, section, tables


def named(heading: str) -> list[str]:
    (table,) = tables(section(page("explanation/chaos.md"), heading))
    return [first for first, *_ in table]


def test_every_fault_is_told() -> None:
    # Two of them have a comma in their names.
    told = ", ".join(named("The faults"))
    assert [kind for kind in KINDS if kind not in told] == []
    assert told.count(",") + 1 == len(KINDS) + sum(kind.count(",") for kind in KINDS)


def test_every_rule_is_told() -> None:
    assert named("What is compared") == list(RULES)
