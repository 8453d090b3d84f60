"""The audit trail tells of every deed, however odd, and forgets what is past its days."""

import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from access import audit, forgetting, idempotent_answers
from access.models import ENTRY_CHARACTERS, AuditEntry, IdempotentAnswer
from beat.upkeep import DUTIES
from executions.states import State

pytestmark = pytest.mark.django_db
DEED: dict[str, Any] = {"who": "ada", "through": "rest", "action": "job.change", "subject": "job:billing.daily"}
DAY = timedelta(days=1)


def recorded(**facts: Any) -> AuditEntry:
    audit.record(**{**DEED, **facts})
    return AuditEntry.objects.latest("pk")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# ── Record ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_deed_is_kept_with_who_when_through_what_and_what_changed(
    noon: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        audit.record(**DEED, before={"priority": 5}, after={"priority": 9}, note="urgent", now=noon)
    assert AuditEntry.objects.values().get() == {
        "id": AuditEntry.objects.get().pk,
        "at": noon,
        "who": "ada",
        "through": "rest",
        "action": "job.change",
        "subject": "job:billing.daily",
        "before": {"priority": 5},
        "after": {"priority": 9},
        "note": "urgent",
    }


def test_left_out_the_time_is_the_databases_and_there_is_no_before_and_after() -> None:
    entry = recorded()
    assert abs(entry.at - datetime.now(UTC)) < timedelta(minutes=1)
    assert AuditEntry.objects.filter(before__isnull=True, after__isnull=True, note="").count() == 1


@pytest.mark.parametrize(("name", "most"), ENTRY_CHARACTERS.items())
def test_a_text_that_is_too_long_or_odd_is_kept_as_far_as_it_can_be(name: str, most: int) -> None:
    assert AuditEntry._meta.get_field(name).max_length == most
    entry = recorded(**{name: "a\x00\ud800é" + "b" * 300})
    assert getattr(entry, name) == ("a␀?é" + "b" * 300)[:most]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}),
        ({}, {}),
        (["a"], ["a"]),
        ({"at": datetime(2026, 6, 15, 12, tzinfo=UTC)}, {"at": "2026-06-15T12:00:00Z"}),
        ({"on": date(2026, 6, 15), "for": timedelta(hours=1)}, {"on": "2026-06-15", "for": "P0DT01H00M00S"}),
        ({"state": State.DEAD, "sum": Decimal("1.10")}, {"state": "DEAD", "sum": "1.10"}),
        ({"id": uuid.UUID(int=7)}, {"id": "00000000-0000-0000-0000-000000000007"}),
        ({"a\x00b": "c\x00d"}, {"a␀b": "c␀d"}),
        ({"a\ud800": "\udfff"}, {"a?": "?"}),
        ({"text": r"\u0000"}, {"text": r"\u0000"}),
    ],
)
def test_before_and_after_are_kept_as_json_that_every_database_takes(value: Any, kept: Any) -> None:
    entry = recorded(before=value, after=value)
    assert (entry.before, entry.after) == (kept, kept)


@pytest.mark.parametrize(
    "value",
    [{"a": {1, 2}}, {"a": float("nan")}, {"a": float("inf")}, {("a", "b"): 1}, object(), {"a": 10**5000}, nested(5000)],
    ids=["set", "nan", "infinite", "odd key", "object", "huge number", "deep"],
)
def test_what_cannot_be_said_in_json_is_replaced_by_a_note_on_it(value: Any) -> None:
    kept = str(recorded(after=value).after)
    assert "not_json" in kept or "too_deep" in kept


def test_of_many_fields_one_that_is_too_large_is_left_out_alone() -> None:
    entry = recorded(after={"priority": 9, "kwargs": {"text": "x" * 20_000}})
    assert entry.after["priority"] == 9
    assert entry.after["kwargs"]["too_large"] == "20012 bytes, the limit is 16384"
    assert entry.after["kwargs"]["start"].startswith('{"text": "xxx')


def test_what_is_too_large_as_a_whole_is_replaced_by_a_note_on_its_size() -> None:
    entry = recorded(after={f"field {number}": "x" * 10_000 for number in range(10)})
    assert entry.after["too_large"].endswith("bytes, the limit is 65536")


def test_a_strange_value_in_one_place_costs_nothing_elsewhere() -> None:
    entry = recorded(before={"priority": 5}, after={"a": object()}, note="n")
    assert (entry.before, entry.note, entry.subject) == ({"priority": 5}, "n", "job:billing.daily")


# ── Changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ({"b": 2}, {"b": 3})),
        ({"a": 1}, {"a": 1, "b": None}, ({}, {"b": None})),
        ({"a": 1, "b": None}, {"a": 1}, ({"b": None}, {})),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}}, ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}})),
        ({"a": 1}, {"a": 1}, ({}, {})),
        ({}, {}, ({}, {})),
    ],
)
def test_changes_are_what_differs_at_the_top(before: dict[str, Any], after: dict[str, Any], changed: object) -> None:
    assert audit.what_changed(before, after) == changed


# ── Forget ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def answer(key: str, *, created_at: datetime) -> None:
    IdempotentAnswer.objects.create(
        owner="key:abc", key=key, fingerprint="f" * 64, status=201, body="{}", created_at=created_at
    )


def test_entries_past_their_days_are_forgotten_and_no_other(noon: datetime, settings: Settings) -> None:
    settings.ONBEAT_ACCESS_AUDIT_DAYS = 7
    for note, at in {"old": noon - 8 * DAY, "just": noon - 7 * DAY, "new": noon}.items():
        recorded(note=note, now=at)
    assert audit.forget_older(noon) == 1
    assert set(AuditEntry.objects.values_list("note", flat=True)) == {"just", "new"}
    assert audit.forget_older(noon) == 0


def test_entries_are_kept_for_a_year_if_nothing_is_said(noon: datetime) -> None:
    for at in (noon - 366 * DAY, noon - 364 * DAY):
        recorded(now=at)
    assert audit.forget_older(noon) == 1


def test_answers_older_than_a_day_are_forgotten_and_no_other(noon: datetime) -> None:
    for key, hours in {"old": 25, "just": 24, "new": 0}.items():
        answer(key, created_at=noon - timedelta(hours=hours))
    assert idempotent_answers.forget_answers(noon) == 1
    assert set(IdempotentAnswer.objects.values_list("key", flat=True)) == {"just", "new"}


def test_many_are_forgotten_in_batches_within_one_call(
    noon: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(7):
        recorded(now=noon - 400 * DAY)
        answer(f"key {number}", created_at=noon - 2 * DAY)
    with django_assert_num_queries(6):
        assert audit.forget_older(noon, limit=3) == 7
    with django_assert_num_queries(6):
        assert idempotent_answers.forget_answers(noon, limit=3) == 7


def test_what_one_call_has_no_time_for_is_left_to_the_next(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_PATIENCE_SECONDS", -1)
    for number in range(5):
        recorded(note=str(number), now=noon - (500 - number) * DAY)
    assert audit.forget_older(noon, limit=2) == 2
    assert sorted(AuditEntry.objects.values_list("note", flat=True)) == ["2", "3", "4"]  # the oldest went first
    assert [audit.forget_older(noon, limit=2) for _ in range(3)] == [2, 1, 0]


def test_beats_do_both_as_duties(noon: datetime) -> None:
    recorded(now=noon - 400 * DAY)
    answer("k", created_at=noon - 2 * DAY)
    duties = {duty.name: duty for duty in DUTIES}
    assert duties["audit"].every == timedelta(hours=1)
    assert duties["idempotent-answers"].every == timedelta(minutes=10)
    assert [duties[name].run(noon) for name in ("audit", "idempotent-answers")] == [1, 1]


# ── Find ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full
@pytest.mark.parametrize(
    ("only", "order", "index"),
    [
        ({}, ["-at", "-id"], "onbeat_audit_entry_at"),
        ({"subject": "job:a"}, ["-id"], "onbeat_audit_entry_subject"),
        ({"subject__startswith": "job:a"}, ["-id"], "onbeat_audit_entry_subject"),
    ],
)
def test_the_newest_the_subject_and_its_beginning_are_found_by_an_index(
    only: dict[str, str], order: list[str], index: str
) -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(
            **{**DEED, "subject": f"job:{number % 997:03}"}, at=datetime(2026, 6, 1, tzinfo=UTC) + number * DAY / 99
        )
        for number in range(5000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE onbeat_audit_entry")
    assert index in AuditEntry.objects.filter(**only).order_by(*order)[:20].explain()
