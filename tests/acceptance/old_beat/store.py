"""Make the tables and fifty tasks that show everything a task can say: `python -m tests.acceptance.old_beat.store`."""

import sys
from datetime import datetime, timedelta
from typing import Any

import django
from django.core.management import call_command

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"

# minute, hour, day of month, month, weekday: with spaces between them
CRONTABS: dict[str, tuple[str, str]] = {
    "berlin.breakfast": ("30 7 * * *", BERLIN),
    "berlin.night": ("30 2 * * *", BERLIN),
    "berlin.two-sharp": ("0 2 * * *", BERLIN),
    "berlin.hourly": ("0 * * * *", BERLIN),
    "berlin.every-minute": ("* * * * *", BERLIN),
    "berlin.quarters-at-night": ("*/15 1-3 * * *", BERLIN),
    "berlin.even-hours": ("0 */2 * * *", BERLIN),
    "berlin.half-past-even-hours": ("30 */2 * * *", BERLIN),
    "berlin.office": ("*/10 9-17 * * mon-fri", BERLIN),
    "berlin.first-monday": ("0 9 1-7 * mon", BERLIN),
    "berlin.weekend": ("15 10 * * sat-sun", BERLIN),
    "new-york.open": ("30 9 * * 1-5", NEW_YORK),
    "new-york.half-past-one": ("30 1 * * *", NEW_YORK),
    "new-york.night": ("45 2 * * *", NEW_YORK),
    "new-york.every-five": ("*/5 * * * *", NEW_YORK),
    "new-york.two-and-three": ("30 2,3 * * *", NEW_YORK),
    "new-york.sundays": ("0 2 * * 0", NEW_YORK),
    "utc.midnight": ("0 0 * * *", "UTC"),
    "utc.every-seven": ("*/7 * * * *", "UTC"),
    "utc.every-third-day": ("0 12 */3 * *", "UTC"),
    "utc.odd-days-on-fridays": ("0 12 */2 * fri", "UTC"),
    "utc.months": ("0 6 1,15 */2 *", "UTC"),
    "utc.named": ("0 6 * jan,october-dec Monday", "UTC"),
    "utc.wraps": ("0 22-2 * * fri-mon", "UTC"),
    "utc.first-and-third": ("0 6 1-7,15-21 * 1", "UTC"),
    "utc.long-step": ("*/45 0 * * *", "UTC"),
    "tokyo.evening": ("0 18 * * *", "Asia/Tokyo"),
    "kolkata.night": ("30 23 * * *", "Asia/Kolkata"),
    "lord-howe.night": ("15 2 * * *", "Australia/Lord_Howe"),
    "sydney.night": ("30 2 * * *", "Australia/Sydney"),
    "santiago.midnight": ("0 0 * * *", "America/Santiago"),
    "london.night": ("30 1 * * *", "Europe/London"),
}
INTERVALS = {
    "i.ninety": (90, "seconds"),
    "i.seven": (7, "minutes"),
    "i.three-hours": (3, "hours"),
    "i.day": (1, "days"),
}


def main() -> None:
    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
    from django.utils import timezone

    now = timezone.now().replace(microsecond=0)
    _store(now)
    sys.stdout.write(now.isoformat())


def _store(now: datetime) -> None:
    from django_celery_beat.models import (
        ClockedSchedule,
        CrontabSchedule,
        IntervalSchedule,
        PeriodicTask,
        SolarSchedule,
    )

    def crontab(text: str, zone: str) -> CrontabSchedule:
        minute, hour, day, month, weekday = text.split(" ")
        return CrontabSchedule.objects.create(
            minute=minute, hour=hour, day_of_month=day, month_of_year=month, day_of_week=weekday, timezone=zone
        )

    def task(name: str, **more: Any) -> None:
        PeriodicTask.objects.create(**{"name": name, "task": "onbeat.echo", **more})

    hourly = IntervalSchedule.objects.create(every=1, period="hours")
    noon = crontab("0 12 * * *", "UTC")
    for name, said in CRONTABS.items():
        task(name, crontab=crontab(*said), last_run_at=now)
    for name, (every, period) in INTERVALS.items():
        interval = IntervalSchedule.objects.create(every=every, period=period)
        task(name, interval=interval, last_run_at=now - timedelta(seconds=70))
    task("i.never ran", interval=hourly)
    task("i.from start", interval=hourly, start_time=now + timedelta(hours=5))
    task("i.late", interval=hourly, last_run_at=now - timedelta(hours=9))
    fast = IntervalSchedule.objects.create(every=500_000, period="microseconds")
    task("i.too fast", interval=fast)
    clocked = ClockedSchedule.objects.create(clocked_time=now + timedelta(days=3))
    task("c.once", clocked=clocked, one_off=True)
    past = ClockedSchedule.objects.create(clocked_time=now - timedelta(days=3))
    task("c.past", clocked=past, one_off=True, enabled=False)
    task("o.one-off", crontab=noon, one_off=True, kwargs='{"message": "only once"}')
    task("o.ran", crontab=noon, one_off=True, total_run_count=1)
    task("d.disabled", crontab=noon, enabled=False)
    task("e.expires", crontab=noon, expires=now + timedelta(days=5))
    task("e.expired", crontab=noon, expires=now - timedelta(days=5))
    task("e.message", interval=hourly, last_run_at=now, expire_seconds=30, priority=200, headers='{"a": 1}')
    task("r.routed", interval=hourly, last_run_at=now, exchange="x", routing_key="y", description="Why it is there.")
    task("Send Mail (daily) ✉", crontab=noon, queue="mail", priority=3, args='["a", 2]', last_run_at=now)
    task("s.sun", solar=SolarSchedule.objects.create(event="sunset", latitude=52, longitude=13))
    task("b.broken", crontab=noon)
    PeriodicTask.objects.filter(name="b.broken").update(kwargs="{not json")
    PeriodicTask.objects.update(date_changed=now)
    task("celery.backend_cleanup", crontab=noon)
    PeriodicTask.objects.filter(name="celery.backend_cleanup").update(task="celery.backend_cleanup")


if __name__ == "__main__":
    main()
