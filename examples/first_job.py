"""Make a job and show its next fire: ./onbeat shell < examples/first_job.py"""

import sys

from executions.clock import database_now
from jobs import definitions
from jobs.recurrence import Cron

try:
    job = definitions.create(
        key="example.good-morning",
        task="onbeat.echo",
        schedule=Cron("30 7 * * mon-fri", timezone="Europe/Berlin"),
        kwargs={"message": "good morning"},
        now=database_now(),
    )
except definitions.InvalidDefinition as refused:
    sys.stdout.write(f"Refused: {refused}\n")
else:
    sys.stdout.write(f"{job.key} runs {job.task}, next at {job.schedule.next_fire_at:%Y-%m-%d %H:%M %Z}.\n")
