"""Rows stored in one statement are in the database what Django's own save would have stored."""

import copy
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.db.models import JSONField, Model
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from executions import many_rows
from jobs.models import Change, Job, JobState, JobVersion, Kind, Schedule
from tests.making import a_job, every_minute, seconds

pytestmark = pytest.mark.django_db
VALUES = [
    None,
    True,
    1,
    1.0,
    "1",
    0,
    False,
    "",
    [],
    {},
    [None],
    [True],
    [1],
    [1.0],
    {"": []},
    {"b": 1, "a": 2},
    {"a": 2, "b": 1},
    2**62,
    -0.1,
    1e300,
    "é 😀 \\ \" ' % %s %% \n\t { } $1 ? :a",
    'null "quoted"',
    "null",
    [{"deep": [{"er": {"est": [1, "two", None, False]}}]}],
]
TEXTS = [
    "",
    "plain",
    "é 😀 – ﷽",
    "\"double\" 'single' `back` \\ /",
    "100 % %s %(a)s %% ? :a $1",
    "tab\tnew\nline",
    "null",
]
NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
MOMENTS = [
    NOON,
    NOON + timedelta(microseconds=1),
    datetime(2026, 6, 15, 14, tzinfo=timezone(timedelta(hours=2))),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]


def chosen(values: Sequence[Any], number: int) -> Any:
    return values[number % len(values)]


@pytest.fixture
def owner() -> Job:
    return a_job(now=NOON, key="owner")


# ── Rows of each kind, no two alike, with every column said ──────────────────────────────────────────────────────


def a_stored_job(number: int) -> Job:
    text, value = chosen(TEXTS, number), chosen(VALUES, number)
    return Job(
        key=f"job-{number}",
        state=chosen(list(JobState), number),
        task=f"task {text}",
        http=value,
        args=value if value is not None else [],
        kwargs=chosen(VALUES[1:], number + 3),
        queue=f"queue {number % 2}",
        priority=number % 10,
        max_attempts=number + 1,
        max_lost=3,
        retry=chosen(VALUES[1:], number + 5),
        timeout_seconds=number if number % 3 else None,
        stop_grace_seconds=number,
        keep_result=bool(number % 2),
        max_concurrency=number or None,
        owner=text,
        tags=chosen([[], ["a"], ["a", "é"]], number),
        paused_reason=chosen(TEXTS, number + 1),
        paused_by=chosen(TEXTS, number + 2),
        paused_until=chosen([None, *MOMENTS], number),
        managed_by=chosen(TEXTS, number + 3),
        version=number + 1,
        created_at=chosen(MOMENTS, number),
        changed_at=chosen(MOMENTS, number + 1),
    )


def a_stored_schedule(number: int) -> Schedule:
    return Schedule(
        job=a_job(now=NOON, key=f"of-{number}"),
        kind=chosen(list(Kind), number),
        expression=f"expression {chosen(TEXTS, number)}",
        timezone=chosen(["UTC", "Europe/Berlin"], number),
        anchor_at=chosen([None, *MOMENTS], number),
        start_at=chosen([*MOMENTS, None], number),
        end_at=None,
        max_fires=number if number % 2 else None,
        fires_left=number if number % 2 else None,
        jitter_seconds=number,
        is_active=bool(number % 2),
        next_fire_at=chosen([None, *MOMENTS], number + 1),
        version=number + 1,
    )


def a_version(owner: Job, number: int) -> JobVersion:
    return JobVersion(
        job=owner,
        version=number + 100,
        change=chosen(list(Change), number),
        definition=chosen(VALUES[1:], number),
        changed_at=chosen(MOMENTS, number),
        changed_by=chosen(TEXTS, number),
        through="python",
        note=chosen(TEXTS, number + 1),
    )


def an_entry(number: int) -> AuditEntry:
    return AuditEntry(
        at=chosen(MOMENTS, number),
        who=chosen(TEXTS, number),
        through=chosen(["rest", "command"], number),
        action="job.create",
        subject=f"job:{number} {chosen(TEXTS, number + 1)}",
        before=chosen(VALUES, number),
        after=chosen(VALUES, number + 7),
        note=chosen(TEXTS, number + 2),
    )


Rows = Callable[[Sequence[int]], list[Model]]


@pytest.fixture(params=["Job", "Schedule", "JobVersion", "AuditEntry"])
def rows(request: pytest.FixtureRequest, owner: Job) -> Rows:
    made: dict[str, Callable[[int], Model]] = {
        "Job": a_stored_job,
        "Schedule": a_stored_schedule,
        "JobVersion": lambda number: a_version(owner, number),
        "AuditEntry": an_entry,
    }
    return lambda numbers: [made[request.param](number) for number in numbers]


# ── What is in the database ──────────────────────────────────────────────────────────────────────────────────────


def columns(model: type[Model]) -> list[tuple[Any, ...]]:
    """As the database has them, not as Django reads them; but for numbers that it gave itself."""
    is_own = model is Schedule
    names = [str(field.column) for field in model._meta.concrete_fields if is_own or not field.primary_key]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(names)} FROM {model._meta.db_table}")
        return sorted(cursor.fetchall(), key=repr)


def stored_by(store: Callable[[list[Any]], object], rows: list[Model]) -> list[tuple[Any, ...]]:
    """What stands there then; taken back."""
    with transaction.atomic():
        store(copy.deepcopy(rows))
        found = columns(type(rows[0]))
        transaction.set_rollback(True)
    return found


def saved(rows: list[Model]) -> None:
    for row in rows:
        row.save(force_insert=True)


# ── Insert ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "numbers", [[0], [5], [0, 1], range(len(VALUES) + len(TEXTS))], ids=["one", "another", "two", "many"]
)
def test_inserted_rows_are_what_save_stores(rows: Rows, numbers: Sequence[int]) -> None:
    made = rows(numbers)
    before = columns(type(made[0]))
    found = stored_by(many_rows.insert, made)
    assert len(found) == len(before) + len(made)
    assert found == stored_by(saved, made)


def test_each_value_alone_is_what_save_stores() -> None:
    for number in range(len(VALUES)):
        made: list[Model] = [an_entry(number)]
        assert stored_by(many_rows.insert, made) == stored_by(saved, made)


def test_rows_that_are_alike_are_all_stored() -> None:
    made: list[Model] = [an_entry(3) for _ in range(4)]
    assert stored_by(many_rows.insert, made) == stored_by(saved, made)
    assert len(stored_by(many_rows.insert, made)) == 4


def test_values_that_python_takes_for_equal_are_kept_apart() -> None:
    alike = [1, True, 1.0, [1], [True], [1.0], {"a": 0}, {"a": False}, None]
    many_rows.insert([AuditEntry(at=NOON, through="rest", action="a", subject="s", after=value) for value in alike])
    found = AuditEntry.objects.order_by("pk").values_list("after", flat=True)
    assert sorted(map(repr, found)) == sorted(map(repr, alike))


def test_rows_like_another_have_its_values_in_all_other_columns() -> None:
    made: list[Model] = []
    for after in (None, [1], [True]):
        entry = an_entry(3)
        entry.before, entry.after = {"a": 1}, after
        made.append(entry)
    given = {"before": ['{"a": 1}'] * 3, "after": [None, "[1]", "[true]"]}
    assert stored_by(lambda _: many_rows.insert_like(an_entry(3), given), made) == stored_by(saved, made)


def test_null_is_no_json_null() -> None:
    many_rows.insert([an_entry(0), an_entry(1)])
    many_rows.insert([an_entry(0)])
    assert AuditEntry.objects.filter(before__isnull=True).count() == 2


def test_no_rows_are_no_statement() -> None:
    with CaptureQueriesContext(connection) as seen:
        assert many_rows.insert([]) == []
        many_rows.store_again([], {"version"})
    assert len(seen) == 0


def test_any_number_of_rows_is_one_statement(rows: Rows) -> None:
    made = rows(range(50))
    with CaptureQueriesContext(connection) as seen:
        many_rows.insert(made)
    assert len(seen) == 1


def test_what_the_database_gave_is_returned() -> None:
    jobs = [a_stored_job(number) for number in range(3)]
    found = dict(many_rows.insert(jobs, ending="RETURNING key, id"))
    assert found == dict(Job.objects.filter(key__startswith="job-").values_list("key", "pk"))


@pytest.mark.full  # SQLite keeps text of any length
def test_text_that_is_too_long_is_refused_and_not_cut() -> None:
    for numbers in ([0], [0, 1]):
        made = [an_entry(number) for number in numbers]
        made[0].note = "x" * 201
        with pytest.raises(DataError), transaction.atomic():
            many_rows.insert(made)


def test_what_a_constraint_forbids_is_refused_whole(owner: Job) -> None:
    twin = a_stored_job(0)
    twin.key, twin.state = owner.key, JobState.ACTIVE
    with pytest.raises(IntegrityError), transaction.atomic():
        many_rows.insert([a_stored_job(1), twin])
    assert list(Job.objects.values_list("key", flat=True)) == ["owner"]


# ── Store again ──────────────────────────────────────────────────────────────────────────────────────────────────


def changed_rows(model: type[Model], number: int) -> list[Any]:
    """Stored ones that shall have the values of others."""
    stored = list(model._default_manager.order_by("pk"))
    for place, row in enumerate(stored):
        other = (a_stored_job if model is Job else a_stored_schedule)(1000 + number + place)
        for field in model._meta.concrete_fields:
            if not field.primary_key and field.name != "key":
                setattr(row, field.attname, getattr(other, field.attname))
    return stored


@pytest.mark.parametrize("count", [1, 2, 30])
@pytest.mark.parametrize("model", [Job, Schedule])
def test_rows_stored_again_are_what_save_stores(model: type[Model], count: int) -> None:
    for number in range(count):
        a_job(now=NOON, key=f"again-{number}", schedule=every_minute(NOON + seconds(number)))
    made = changed_rows(model, count)
    fields = {field.name for field in model._meta.concrete_fields if not field.primary_key}
    assert stored_by(lambda rows: many_rows.store_again(rows, fields), made) == stored_by(
        lambda rows: [row.save() for row in rows], made
    )


def test_only_the_named_fields_are_stored_again() -> None:
    jobs = [a_job(now=NOON, key=f"again-{number}", tags=["a"]) for number in range(2)]
    for job in jobs:
        job.owner, job.tags, job.queue = f"of {job.key}", [1, None], "not said"
    many_rows.store_again(jobs, ["owner", "tags"])
    assert list(Job.objects.order_by("key").values_list("owner", "tags", "queue")) == [
        ("of again-0", [1, None], "default"),
        ("of again-1", [1, None], "default"),
    ]


def test_a_key_is_kept_by_whom_it_belongs_to(owner: Job) -> None:
    """Stored again, a row meets its own key, which may stand only once."""
    owner.version = 7
    many_rows.store_again([owner], ["version"])
    assert Job.objects.get().version == 7


def test_the_values_tried_here_are_of_every_kind_of_json() -> None:
    fields = [field for model in (Job, JobVersion, AuditEntry) for field in model._meta.concrete_fields]
    assert len([field for field in fields if isinstance(field, JSONField)]) == 8
    assert {type(value) for value in VALUES} == {type(None), bool, int, float, str, list, dict}
