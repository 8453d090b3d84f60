"""On PostgreSQL, partition executions and attempts by fire time. SQLite keeps its plain tables.

A table cannot be made partitioned where it stands: it is put aside, a partitioned one of the same shape takes its name,
the rows move over, and the indexes are made anew.
"""

from datetime import timedelta

from django.db import migrations
from django.db.models import Max, Min, UniqueConstraint
from django.utils import timezone


def partition(apps, schema_editor):
    if schema_editor.connection.vendor != 'postgresql':
        return
    models = [apps.get_model('onbeat_executions', name) for name in ('Execution', 'Attempt')]
    months = _months_of_rows(models[0], schema_editor)
    for model in models:
        _put_aside(model, schema_editor)
    _make(months, schema_editor)
    for model in models:
        _take_over(model, schema_editor)


def _months_of_rows(execution, schema_editor):
    from executions.partitions import months_between

    ends = execution.objects.using(schema_editor.connection.alias).aggregate(first=Min('fire_time'), last=Max('fire_time'))
    now = timezone.now()
    last = max(ends['last'] or now, now) + timedelta(days=92)
    return months_between(min(ends['first'] or now, now), last)


def _put_aside(model, schema_editor):
    table = model._meta.db_table
    schema_editor.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_plain"')
    schema_editor.execute(
        f'CREATE TABLE "{table}" (LIKE "{table}_plain" INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING IDENTITY) '
        'PARTITION BY RANGE (fire_time)'
    )


def _make(months, schema_editor):
    from executions.partitions import make_on

    make_on(schema_editor.connection, months)


def _take_over(model, schema_editor):
    table = model._meta.db_table
    columns = ', '.join(f'"{field.column}"' for field in model._meta.local_concrete_fields)
    schema_editor.execute(f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM "{table}_plain"')
    if model._meta.pk.get_internal_type() == 'BigAutoField':
        schema_editor.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
            f'(SELECT coalesce(max(id), 0) + 1 FROM "{table}_plain"), false)'
        )
    schema_editor.execute(f'DROP TABLE "{table}_plain"')
    schema_editor.execute(f'ALTER TABLE "{table}" ADD CONSTRAINT "{table}_pkey" PRIMARY KEY (id, fire_time)')
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
        migrations.RunPython(partition, migrations.RunPython.noop),
    ]
