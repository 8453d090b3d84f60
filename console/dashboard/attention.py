"""What needs somebody's attention, the worst first.

Owns which facts are a concern, and the words. Invariant: a bounded number of small statements; nothing is asked of the
broker or Redis here, which may hang: the beats say what they could not reach.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.urls import reverse
from django.utils.http import urlencode

from beat.models import Beat
from console.queues import Queue
from executions import health, queue_samples
from executions.identity import earliest_id
from executions.models import Execution
from executions.states import State
from executions.words import clock, count, duration
from jobs import ledger
from jobs.figures import LATE_AFTER
from jobs.models import Job, Schedule
from workers.models import Worker

_DAY = timedelta(days=1)
_MOST_LATE = 1000
_LATEST_DEAD = 2000  # are looked at to find the jobs that fail
_NAMED = 5
_MOST_SILENT = 100
_LONG_WAIT_SECONDS = 60.0
_HISTORY = timedelta(minutes=15)


@dataclass(frozen=True)
class Concern:
    tone: str  # bad or warn
    icon: str
    title: str
    detail: str
    link: str


def concerns(*, now: datetime, queues: Sequence[Queue], dead: int) -> list[Concern]:
    found = [*_health(), *_lost(), *_late(now), *_silent(now), *_waiting(queues, now), *_failing(now), *_dead(dead)]
    return sorted(found, key=lambda concern: concern.tone != "bad")


_LINKS = {"workers": "onbeat_workers_worker_changelist", "broker": "queues"}
_TITLES = {
    "beat": "No beat fires",
    "clocks": "A beat's clock is wrong",
    "broker": "The broker is away",
    "redis": "Redis is away",
    "workers": "No worker is alive",
    "database": "The database is not as it should be",
}


def _health() -> Iterator[Concern]:
    for name, finding in health.look().items():
        if not finding.is_well:
            link = reverse(f"admin:{_LINKS.get(name, 'onbeat_beat_beat_changelist')}")
            tone = "bad" if finding.is_vital or name in ("workers", "broker") else "warn"
            yield Concern(tone, "emergency_home", _TITLES.get(name, name.capitalize()), _sentence(finding.says), link)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _lost() -> Iterator[Concern]:
    """Fires without a row: what must never be."""
    lost = ledger.lost()
    if lost:
        named = ", ".join(f"{key} at {clock(fire)}" for key, fire in lost[:_NAMED])
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        link = f"{reverse('admin:onbeat_jobs_job_changelist')}?{urlencode({'search': lost[0][0]})}"
        title = f"{count(len(lost), 'fire')} lost"
        yield Concern("bad", "error", title, f"No row tells of {named}{more}. Run `./onbeat doctor`.", link)


def _late(now: datetime) -> Iterator[Concern]:
    """Schedules whose fire has passed and that nobody has planned."""
    late = Schedule.objects.firing_before(now - LATE_AFTER)
    number = late.order_by().values("pk")[:_MOST_LATE].count()
    if not number:
        return
    first = late.select_related("job").only("next_fire_at", "job__key")[:3]
    oldest = [(schedule.job.key, schedule.next_fire_at) for schedule in first]
    since = duration(now - oldest[0][1]) if oldest and oldest[0][1] else "a while"
    many = f"more than {_MOST_LATE:,} schedules" if number >= _MOST_LATE else count(number, "schedule")
    keys = ", ".join(key for key, _ in oldest)
    link = f"{reverse('admin:onbeat_jobs_job_changelist')}?{urlencode({'order': 'next'})}"
    yield Concern(
        "bad", "alarm", f"{many[0].upper()}{many[1:]} late", f"The oldest is due since {since}: {keys}.", link
    )


def _silent(now: datetime) -> Iterator[Concern]:
    """Registered, and not heard of: whoever leaves in order signs off."""
    beats_since = now - timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
    workers_since = now - timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    for noun, silent, link in (
        ("beat", Beat.objects.silent_since(beats_since), "onbeat_beat_beat_changelist"),
        ("worker", Worker.objects.filter(heartbeat_at__lt=workers_since), "onbeat_workers_worker_changelist"),
    ):
        names = list(silent.order_by("name").values_list("name", flat=True)[:_MOST_SILENT])
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            detail = f"{', '.join(names[:_NAMED])}{more}: gone without signing off, or cut off."
            yield Concern("warn", "heart_broken", f"{count(len(names), noun)} silent", detail, reverse(f"admin:{link}"))


def _waiting(queues: Iterable[Queue], now: datetime) -> Iterator[Concern]:
    history = queue_samples.history(now - _HISTORY)
    link = reverse("admin:queues")
    for queue in queues:
        waits = f"{count(queue.total, 'execution')} wait{'s' if queue.total == 1 else ''}"
        since = f", the oldest for {duration(queue.oldest_seconds)}" if queue.oldest_seconds else ""
        if queue.total and not queue.workers:
            yield Concern(
                "bad", "no_accounts", f"Nobody takes from {queue.name}", f"{waits}{since}. Start a worker.", link
            )
        elif queue_samples.is_growing(history.get(queue.name, ()), queue.total, now=now):
            yield Concern("warn", "trending_up", f"The queue {queue.name} grows", f"{waits}{since}.", link)
        elif queue.oldest_seconds is not None and queue.oldest_seconds > _LONG_WAIT_SECONDS:
            yield Concern("warn", "hourglass_top", f"The queue {queue.name} is behind", f"{waits}{since}.", link)


def _failing(now: datetime) -> Iterator[Concern]:
    """Jobs that gave up within a day, among the latest that did."""
    since = now - _DAY
    latest = (
        Execution.objects.filter(state=State.DEAD, pk__gte=earliest_id(since), fire_time__gte=since)
        .filter(fire_time__lte=now)
        .order_by("-pk")
        .values("pk", "job_id")[:_LATEST_DEAD]
    )
    counted: dict[int, int] = {}
    for row in latest:
        counted[row["job_id"]] = counted.get(row["job_id"], 0) + 1
    worst = sorted(counted.items(), key=lambda pair: -pair[1])[:_NAMED]
    if not worst:
        return
    keys = dict(Job.objects.filter(pk__in=[pk for pk, _ in worst]).values_list("pk", "key"))
    named = ", ".join(f"{keys.get(pk, pk)} ({number})" for pk, number in worst)
    more = f" and {len(counted) - len(worst)} more" if len(counted) > len(worst) else ""
    link = f"{reverse('admin:onbeat_executions_execution_changelist')}?{urlencode({'state': 'DEAD', 'when': 'day'})}"
    title = f"{count(len(counted), 'job')} failed for good in 24 hours"
    yield Concern("warn", "error", title, f"Dead letters by job: {named}{more}.", link)


def _dead(dead: int) -> Iterator[Concern]:
    if dead:
        detail = "Replay them once the cause is gone, or discard them with a note."
        title = f"{count(dead, 'dead letter')} wait{'s' if dead == 1 else ''} for a person"
        yield Concern("warn", "mark_email_unread", title, detail, reverse("admin:dead_letters"))


def waiting_for_a_person() -> int:
    return Execution.objects.filter(state=State.DEAD, handled_at=None).count()
