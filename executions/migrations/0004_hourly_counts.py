"""Counts per hour, and indexes for two questions of upkeep.

The index on finished_at is for PostgreSQL alone: whether a month of millions may be dropped is asked without reading it.
It is of a kind that costs a page or so and holds up no write; SQLite has no such kind, and no months.
"""

import django.db.models.deletion
from django.db import migrations, models


def index_ends(apps, schema_editor):
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute('CREATE INDEX onbeat_execution_ended ON onbeat_execution USING brin (finished_at)')


def forget_ends(apps, schema_editor):
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute('DROP INDEX onbeat_execution_ended')


class Migration(migrations.Migration):

    dependencies = [
        ('onbeat_executions', '0003_partitions'),
        ('onbeat_jobs', '0002_policies_and_history'),
    ]

    operations = [
        migrations.CreateModel(
            name='HourlyCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(help_text='The start of the hour in which the fire times lie.')),
                ('queue', models.CharField(max_length=100)),
                ('state', models.CharField(choices=[('SCHEDULED', 'Scheduled'), ('QUEUED', 'Queued'), ('RUNNING', 'Running'), ('SUCCEEDED', 'Succeeded'), ('DEAD', 'Dead'), ('CANCELLED', 'Cancelled'), ('SKIPPED', 'Skipped')], max_length=16)),
                ('count', models.PositiveIntegerField(help_text='Each fire of a skipped stretch counts, in the hour of the first.')),
                ('started', models.PositiveIntegerField(help_text='How many of them the delays are of.')),
                ('run_seconds', models.FloatField(help_text='How long their last attempts ran, in sum.')),
                ('delay_seconds', models.FloatField(help_text='How long after they were due their last attempts began, in sum.')),
                ('longest_delay_seconds', models.FloatField()),
            ],
            options={
                'db_table': 'onbeat_hourly_count',
            },
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('state', 'QUEUED')), fields=['queued_at'], name='onbeat_execution_queued'),
        ),
        migrations.AddField(
            model_name='hourlycount',
            name='job',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='hourly_counts', to='onbeat_jobs.job'),
        ),
        migrations.AddConstraint(
            model_name='hourlycount',
            constraint=models.UniqueConstraint(fields=('hour', 'job', 'queue', 'state'), name='onbeat_hourly_count_once'),
        ),
        migrations.RunPython(index_ends, forget_ends),
    ]
