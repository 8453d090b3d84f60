"""Reading the broker's confirms: only the set of outstanding tags proves anything."""

import pytest

from executions.confirms import NACKED, UNROUTABLE, Confirms
from executions.outgoing import Outgoing
from tests.making import an_outgoing


@pytest.fixture
def executions() -> list[Outgoing]:
    return [an_outgoing() for _ in range(4)]


@pytest.fixture
def batch(executions: list[Outgoing]) -> Confirms:
    confirms = Confirms(executions)
    for tag, execution in enumerate(executions, start=11):
        confirms.sent(tag, execution)
    return confirms


def test_the_highest_tag_proves_nothing_about_the_others(batch: Confirms, executions: list[Outgoing]) -> None:
    batch.acked(14, multiple=False)
    report = batch.report({})
    assert report.confirmed == [executions[3]]
    assert report.unknown == executions[:3]


def test_an_ack_for_many_settles_all_up_to_its_tag(batch: Confirms, executions: list[Outgoing]) -> None:
    batch.acked(13, multiple=True)
    assert batch.report({}).confirmed == executions[:3]
    assert list(batch.outstanding) == [14]


def test_acks_may_come_out_of_order_and_twice(batch: Confirms, executions: list[Outgoing]) -> None:
    for tag in (13, 11, 13, 14, 12):
        batch.acked(tag, multiple=False)
    assert {execution.pk for execution in batch.report({}).confirmed} == {execution.pk for execution in executions}
    assert len(batch.report({}).confirmed) == 4
    assert not batch.outstanding


def test_a_nack_is_not_a_confirm(batch: Confirms, executions: list[Outgoing]) -> None:
    batch.nacked(12, multiple=True)
    batch.acked(14, multiple=True)
    report = batch.report({})
    assert report.confirmed == executions[2:]
    assert (report.unknown, report.held) == ([], {NACKED: executions[:2]})


def test_a_returned_message_is_unroutable_although_it_is_acked(batch: Confirms, executions: list[Outgoing]) -> None:
    batch.returned(str(executions[1].pk))
    batch.acked(14, multiple=True)
    report = batch.report({})
    assert report.held == {UNROUTABLE: [executions[1]]}
    assert executions[1] not in report.confirmed
    assert report.unknown == []
