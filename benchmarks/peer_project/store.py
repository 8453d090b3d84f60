"""Make the peer's tables and store tasks that are due at once: `python -m benchmarks.peer_project.store`."""

import os
from datetime import timedelta

import django
from django.core.management import call_command


def main() -> None:
    django.setup()
    call_command("migrate", verbosity=0, interactive=False)

    from django.db import connection
    from django.utils import timezone
    from django_celery_beat.models import IntervalSchedule, PeriodicTask

    # An interval costs the peer less than a crontab does.
    daily = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.DAYS)
    two_days_ago = timezone.now() - timedelta(days=2)
    PeriodicTask.objects.bulk_create(
        PeriodicTask(name=f"peer-{number}", task="peer.echo", interval=daily, last_run_at=two_days_ago)
        for number in range(int(os.environ["PEER_FIRES"]))
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


if __name__ == "__main__":
    main()
