"""How the durations of an hour are spread, beside their sums.

Hours of the last day are counted anew and get theirs within the hour; older ones stay without. On PostgreSQL a column
with a constant default rewrites nothing; SQLite copies the table.
"""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('onbeat_executions', '0005_dead_letters'),
    ]

    operations = [
        migrations.AddField(
            model_name='hourlycount',
            name='delay_histogram',
            field=models.JSONField(db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='hourlycount',
            name='run_histogram',
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
