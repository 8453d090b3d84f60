"""A migration after the first release leaves the release before it at work: what old code writes, the database takes.

Old code names the columns that it knows. So a new column may be empty or has a default that the database knows, and
nothing goes that old code asks for. What cannot be so is named below, and the changelog says that it needs a stop.
"""

from collections.abc import Iterable, Iterator

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

# The last migration of each app that the first release has.
FIRST_RELEASE = {
    "onbeat_access": 2,
    "onbeat_beat": 3,
    "onbeat_callbacks": 1,
    "onbeat_executions": 12,
    "onbeat_jobs": 9,
    "onbeat_workers": 2,
}
NEEDS_A_STOP: set[tuple[str, str]] = set()
_TAKEN_AWAY = (migrations.RemoveField, migrations.DeleteModel, migrations.RenameField, migrations.RenameModel)


def breaches(operations: Iterable[Operation]) -> Iterator[str]:
    """What code of the release before would stumble over."""
    for each in operations:
        if isinstance(each, migrations.SeparateDatabaseAndState):
            yield from breaches(each.database_operations)
        elif isinstance(each, _TAKEN_AWAY):
            yield f"{each.describe()}: old code asks for it"
        elif isinstance(each, migrations.AddField):
            field = each.field
            if not (field.null or field.many_to_many or field.has_db_default()):
                yield f"{each.describe()}: old code writes rows without it; say null=True or db_default"


def test_migrations_since_the_first_release_leave_old_code_at_work() -> None:
    found = {
        key: told
        for key, migration in MigrationLoader(None).disk_migrations.items()
        if int(key[1][:4]) > FIRST_RELEASE.get(key[0], 10_000) and (told := list(breaches(migration.operations)))
    }
    assert {key: told for key, told in found.items() if key not in NEEDS_A_STOP} == {}


@pytest.mark.parametrize(
    ("operation", "count"),
    [
        (migrations.AddField("job", "colour", models.TextField(default="")), 1),
        (migrations.AddField("job", "colour", models.TextField(null=True)), 0),
        (migrations.AddField("job", "colour", models.TextField(db_default="")), 0),
        (migrations.RemoveField("job", "colour"), 1),
        (migrations.RenameField("job", "colour", "hue"), 1),
        (migrations.DeleteModel("job"), 1),
        (migrations.CreateModel("job", [("id", models.BigAutoField(primary_key=True))]), 0),
        (migrations.SeparateDatabaseAndState([migrations.RemoveField("job", "colour")], []), 1),
        (migrations.SeparateDatabaseAndState([], [migrations.RemoveField("job", "colour")]), 0),
    ],
)
def test_what_old_code_would_stumble_over_is_found(operation: Operation, count: int) -> None:
    assert len(list(breaches([operation]))) == count
