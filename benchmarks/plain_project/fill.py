"""Make the tables for results, if they are kept, and send messages: `python -m benchmarks.plain_project.fill COUNT`."""

import sys

import django
from django.core.management import call_command

from benchmarks.plain_project.celery import app, echo


def main(count: int) -> None:
    if not app.conf.task_ignore_result:
        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
    with app.producer_or_acquire() as producer:
        for _ in range(count):
            echo.apply_async(producer=producer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
