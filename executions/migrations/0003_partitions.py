"""On PostgreSQL, partition executions and attempts by fire time. SQLite keeps its plain tables.

A table cannot be made partitioned where it stands: it is put aside, one of the same shape takes its name, the rows move
over, and the indexes are made anew. The way back does the same.
"""

from datetime import timedelta

from django.db import migrations
from django.db.models import UniqueConstraint
from django.utils import timezone


def partition(apps, schema_editor):
    from executions.partitions import make_on, months_between

    models = _models(apps, schema_editor)
    for model in models:
        _put_aside(model, schema_editor, 'PARTITION BY RANGE (fire_time)')
    if models:
        make_on(schema_editor.connection, months_between(*_ends(schema_editor)))
    for model in models:
        _take_over(model, schema_editor, 'id, fire_time')


def make_plain(apps, schema_editor):
    for model in _models(apps, schema_editor):
        _put_aside(model, schema_editor, '')
        _take_over(model, schema_editor, 'id')


def _models(apps, schema_editor):
    if schema_editor.connection.vendor != 'postgresql':
        return []
    return [apps.get_model('onbeat_executions', name) for name in ('Execution', 'Attempt')]


def _ends(schema_editor):
    """From the first month with rows to a few beyond the last and this one. Nobody writes: the table is put aside."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute('SELECT min(fire_time), max(fire_time) FROM onbeat_execution_aside')
        first, last = cursor.fetchone()
    now = timezone.now()
    return min(first or now, now), max(last or now, now) + timedelta(days=92)


def _put_aside(model, schema_editor, partition_by):
    table = model._meta.db_table
    schema_editor.execute(f'LOCK TABLE "{table}" IN ACCESS EXCLUSIVE MODE')
    schema_editor.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_aside"')
    schema_editor.execute(
        f'CREATE TABLE "{table}" (LIKE "{table}_aside" INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING IDENTITY) '
        + partition_by
    )


def _take_over(model, schema_editor, primary_key):
    table = model._meta.db_table
    columns = ', '.join(f'"{field.column}"' for field in model._meta.local_concrete_fields)
    schema_editor.execute(f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM "{table}_aside"')
    if model._meta.pk.get_internal_type() == 'BigAutoField':
        schema_editor.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
            f'(SELECT coalesce(max(id), 0) + 1 FROM "{table}_aside"), false)'
        )
    schema_editor.execute(f'DROP TABLE "{table}_aside"')
    schema_editor.execute(f'ALTER TABLE "{table}" ADD CONSTRAINT "{table}_pkey" PRIMARY KEY ({primary_key})')
    for constraint in model._meta.constraints:
        if isinstance(constraint, UniqueConstraint):  # the checks came with the shape
            schema_editor.add_constraint(model, constraint)
    for index in model._meta.indexes:
        schema_editor.add_index(model, index)


class Migration(migrations.Migration):

    dependencies = [
        ('onbeat_executions', '0002_runs_and_waiting'),
    ]

    operations = [
        migrations.RunPython(partition, make_plain),
    ]
