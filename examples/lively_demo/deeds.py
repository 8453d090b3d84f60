"""What people did: the jobs that they made, changed and paused, their API keys, and the audit trail of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group, User

from access import api_keys, audit
from access.models import ApiKey
from api.jobs.named import as_stored, subject_of
from examples.lively_demo.company import CHARGES, CONTACTS, PEOPLE, THUMBNAILS, WAREHOUSE, WORKS, Work
from examples.lively_demo.history import PAUSED_SINCE
from jobs import definitions
from jobs.models import Job, Schedule

_FOUNDED = timedelta(days=45)


def hire() -> None:
    """People who sign in with a password that nobody knows: an admin gives them one."""
    for name, role in PEOPLE.items():
        person = User.objects.create_user(name, email=f"{name}@meridian.example")
        person.groups.set(Group.objects.filter(name=role.group))


def make_jobs(now: datetime) -> list[tuple[Work, Job]]:
    return [(work, _make(work, now - _FOUNDED + timedelta(hours=3 * place))) for place, work in enumerate(WORKS)]


def _make(work: Work, at: datetime) -> Job:
    job = definitions.create(
        key=work.key,
        task=work.task,
        task_lives_elsewhere=True,
        schedule=work.schedule,
        by=work.by,
        through="admin",
        now=at,
        **work.more,
    )
    _record(work.by, "job.create", job, at, after=as_stored(job))
    return job


def change_jobs(now: datetime) -> None:
    _change(CONTACTS, now - timedelta(days=20), timeout_seconds=900)
    _change(CONTACTS, now - timedelta(days=6), timeout_seconds=600, tags=["sync", "customers"], priority=6)
    _change(CHARGES, now - timedelta(days=9), by="mei.tanaka", timeout_seconds=420, priority=9)
    _change(THUMBNAILS, now - timedelta(days=2), kwargs={"sizes": [160, 480, 1280, 2560]})
    _rest(CHARGES, now - timedelta(days=16), timedelta(hours=2), "the bank moves its servers")


def pause_one(now: datetime) -> None:
    """After its history is there, which ends with the pause."""
    at, until = now - PAUSED_SINCE, now + timedelta(days=2)
    job = _as_of(WAREHOUSE, at)
    reason = "the warehouse moves to another cluster"
    job = definitions.pause(job, reason=reason, until=until, by="mei.tanaka", through="admin", now=at)
    _record("mei.tanaka", "job.pause", job, at, after={"state": "PAUSED", "until": until}, note=reason)


def _change(work: Work, at: datetime, *, by: str = "jonas.weber", **fields: Any) -> None:
    job = _as_of(work, at)
    before = as_stored(job)
    job = definitions.change(job, version=job.version, by=by, through="admin", now=at, **fields)
    old, new = audit.what_changed(before, as_stored(job))
    _record(by, "job.change", job, at, before=old, after=new)


def _rest(work: Work, at: datetime, span: timedelta, reason: str) -> None:
    job = definitions.pause(_as_of(work, at), reason=reason, by="ana.ruiz", through="rest", now=at)
    _record("ana.ruiz", "job.pause", job, at, through="rest", note=reason)
    job = definitions.resume(job, by="ana.ruiz", through="rest", now=at + span)
    _record("ana.ruiz", "job.resume", job, at + span, through="rest")


def _as_of(work: Work, at: datetime) -> Job:
    """The job, with a schedule that has the fires up to this moment behind it."""
    job = Job.objects.get(key=work.key)
    schedule = Schedule.objects.filter(job=job).first()
    if schedule is not None:
        schedule.next_fire_at = schedule.recurrence.next_after(at)
        schedule.save(update_fields=["next_fire_at"])
    return job


def _record(who: str, action: str, job: Job, at: datetime, *, through: str = "admin", **more: Any) -> None:
    audit.record(who=who, through=through, action=action, subject=subject_of(job), now=at, **more)


# ── Keys, and what was done of late ──────────────────────────────────────────────────────────────────────────────

# By name: its role, for how many days it was made, and how many minutes ago it was used.
_KEYS: Mapping[str, tuple[str, int | None, int | None]] = {
    "storefront": ("operator", None, 1),
    "billing server": ("editor", 365, 7),
    "status page": ("viewer", None, 3),
    "import of 2025": ("editor", 30, None),
    "jonas, laptop": ("operator", 90, 4000),
}


def make_keys(now: datetime) -> None:
    at = now - _FOUNDED
    for name, (role, days, minutes) in _KEYS.items():
        end = None if days is None else at + timedelta(days=days)
        key = api_keys.make(name=name, role=role, expires_at=end, by="mei.tanaka", through="admin", now=at).key
        if minutes is not None:
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now - timedelta(minutes=minutes))
    lost = ApiKey.objects.get(name="jonas, laptop")
    api_keys.revoke(lost.prefix, by="mei.tanaka", through="admin", now=now - timedelta(days=2))


def tell_of_today(now: datetime) -> None:
    """Deeds that leave no row of their own but here."""
    for who, action, subject, minutes, note in _TODAY:
        at = now - timedelta(minutes=minutes)
        audit.record(who=who, through="admin", action=action, subject=f"job:{subject}", note=note, now=at)


_TODAY = (
    ("jonas.weber", "job.run", "search.rebuild-index", 23, ""),
    ("jonas.weber", "dead_letter.discard", "webhooks.stock-levels", 1680, "stock was sent by hand"),
    ("ana.ruiz", "job.backfill", "crm.sync-deals", 2900, ""),
)
