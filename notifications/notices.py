"""Notices: what is told to whom, and the runs that deliver it.

Owns the rows of notices. Invariants: a notice and the run that delivers it are stored together; of a fact a receiver
gets one notice; no receiver gets more in an hour than it wants, but for the ends of what it was told. What the limit
holds back is told when it may be, if it is not over by then, and counted in the next notice.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, F, Q

from executions import many_rows
from jobs import runs
from jobs.runs import Wanted
from notifications.kinds import Kind
from notifications.models import Notice, Receiver, Trouble
from notifications.recoveries import Success

_AT_ONCE = 500
_HOUR = timedelta(hours=1)
_RANK = {Kind.DEAD_LETTER: 0, Kind.FAILURE: 1, Kind.LATENESS: 2}
# Neither can be more than what was asked for, or told before.
_UNLIMITED = (Kind.RECOVERY, Kind.TEST)


def about(kind: str, job_key: str) -> str:
    """What goes together at a receiver. No key of a job has a blank in it."""
    return f"late {job_key}" if kind == Kind.LATENESS else job_key


def tell_troubles(receivers: Sequence[Receiver], *, now: datetime) -> int:
    """Make notices of what was not told yet, as far as the limits let; how many."""
    repeat = now - timedelta(seconds=settings.ONBEAT_NOTIFICATIONS_REPEAT_SECONDS)
    untold = Trouble.objects.filter(receiver__in=[r.pk for r in receivers], untold__gt=0)
    untold = untold.filter(Q(told_at=None) | Q(told_at__lte=repeat))
    due = list(untold.order_by("began_at").select_related("job")[:_AT_ONCE])
    if not due:
        return 0
    waiting = Counter(trouble.receiver_id for trouble in due)
    if len(due) == _AT_ONCE:
        waiting = Counter(dict(untold.order_by().values_list("receiver_id").annotate(Count("pk"))))
    chosen: list[tuple[Receiver, Trouble]] = []
    made: list[Notice] = []
    left = _left(receivers, now=now)
    for receiver in receivers:
        of_this = [trouble for trouble in due if trouble.receiver_id == receiver.pk]
        told = sorted(of_this, key=lambda one: (_RANK[Kind(one.kind)], one.began_at))[: left[receiver.pk]]
        if not told:
            continue
        made += [_of_trouble(receiver, trouble, now=now) for trouble in told]
        more = waiting[receiver.pk] - len(told) + receiver.passed_over
        if more:
            made[-1].said["more"] = more
        chosen += [(receiver, trouble) for trouble in told]
    if not chosen:
        return 0
    Trouble.objects.filter(pk__in=[trouble.pk for _, trouble in chosen]).update(untold=0, told_at=now)
    Receiver.objects.filter(pk__in={receiver.pk for receiver, _ in chosen}, passed_over__gt=0).update(passed_over=0)
    return make(made, receivers, now=now)


def _left(receivers: Sequence[Receiver], *, now: datetime) -> dict[int, int]:
    """How many each may still get."""
    lately = Notice.objects.filter(receiver__in=[r.pk for r in receivers], made_at__gt=now - _HOUR)
    counts = dict(lately.exclude(kind__in=_UNLIMITED).values_list("receiver_id").annotate(Count("pk")))
    return {r.pk: max(r.most_per_hour - counts.get(r.pk, 0), 0) for r in receivers}


def _of_trouble(receiver: Receiver, trouble: Trouble, *, now: datetime) -> Notice:
    is_late = trouble.kind == Kind.LATENESS
    moment = trouble.began_at.isoformat()
    subject = f"{trouble.job_id} {moment}" if is_late else f"{trouble.execution_id} {trouble.attempt}"
    if trouble.told_at:
        subject += f" {trouble.told_at.isoformat()}"  # what is told again may be of an older fact that came late
    return Notice(
        receiver=receiver,
        kind=trouble.kind,
        subject=subject,
        about=about(trouble.kind, trouble.job.key),
        job_key=trouble.job.key,
        made_at=now,
        said={
            **trouble.said,
            "count": trouble.untold,
            "began_at": moment,
            "told_before_at": trouble.told_at and trouble.told_at.isoformat(),
        },
    )


def tell_success(troubles: Iterable[Trouble], success: Success, *, now: datetime) -> list[Notice]:
    """Of one receiver and one job: they are over by this. Nothing is told to whom nothing was told."""
    troubles = list(troubles)
    first = min(troubles, key=lambda one: one.began_at)
    notice = Notice(
        # One success may end several: what failed before it may become known after it.
        subject=f"{success.execution_id} {success.attempt} {first.began_at.isoformat()}",
        said={
            "execution": str(success.execution_id),
            "attempt": success.attempt,
            "at": success.at.isoformat(),
            "began_at": first.began_at.isoformat(),
            "after": [trouble.kind for trouble in troubles if trouble.told_at],
            "count": sum(trouble.untold for trouble in troubles),
        },
    )
    return _recovered(troubles, notice, now=now)


def tell_caught_up(trouble: Trouble, *, now: datetime) -> list[Notice]:
    notice = Notice(
        subject=f"{trouble.job_id} {trouble.began_at.isoformat()}",
        said={
            "execution": "",
            "at": now.isoformat(),
            "began_at": trouble.began_at.isoformat(),
            "after": [trouble.kind],
        },
    )
    return _recovered([trouble], notice, now=now)


def _recovered(troubles: Sequence[Trouble], notice: Notice, *, now: datetime) -> list[Notice]:
    one = troubles[0]
    if not (one.receiver.wants(Kind.RECOVERY) and any(trouble.told_at for trouble in troubles)):
        return []
    notice.receiver, notice.kind, notice.made_at = one.receiver, Kind.RECOVERY, now
    notice.job_key, notice.about = one.job.key, about(one.kind, one.job.key)
    notice.said["job"] = one.job.key
    return [notice]


def end(troubles: Sequence[Trouble]) -> None:
    """They are over. Those that the limit held back so long are counted for the next notice."""
    Trouble.objects.filter(pk__in=[trouble.pk for trouble in troubles]).delete()
    for receiver_id, count in Counter(t.receiver_id for t in troubles if t.told_at is None).items():
        Receiver.objects.filter(pk=receiver_id).update(passed_over=F("passed_over") + count)


def make(wanted: Sequence[Notice], receivers: Sequence[Receiver], *, now: datetime) -> int:
    """Store notices and ask for the runs that deliver them, within the caller's transaction; how many are new."""
    if not wanted:
        return 0
    subjects = {notice.subject for notice in wanted}
    there = set(
        Notice.objects.filter(receiver__in={n.receiver_id for n in wanted}, subject__in=subjects).values_list(
            "receiver_id", "kind", "subject"
        )
    )
    new = [notice for notice in wanted if (notice.receiver_id, str(notice.kind), notice.subject) not in there]
    Notice.objects.bulk_create(new)
    for receiver in receivers:
        own = [notice for notice in new if notice.receiver_id == receiver.pk]
        if own:
            asked = runs.run_many(receiver.job, [_run_of(notice) for notice in own], now=now)
            for notice, run in zip(own, asked, strict=True):
                notice.execution_id = run.execution_id
    many_rows.store_again(new, ["execution_id"])
    return len(new)


def make_test(receiver: Receiver, *, now: datetime) -> Notice:
    """One that says that it is a test, published by this very process when the transaction commits."""
    notice = Notice(
        receiver=receiver,
        kind=Kind.TEST,
        subject=str(uuid.uuid4()),
        about=f"test {receiver.name}",
        made_at=now,
        said={"at": now.isoformat()},
    )
    notice.save()
    (asked,) = runs.run_at_once(receiver.job, [_run_of(notice)], now=now)
    notice.execution_id = asked.execution_id
    notice.save(update_fields=["execution_id"])
    return notice


def _run_of(notice: Notice) -> Wanted:
    """Its payload names the notice, and holds nothing of it."""
    return Wanted(kwargs={"notice": notice.pk})


def forget(before: datetime) -> int:
    """Notices and troubles that are past their days."""
    gone, _ = Trouble.objects.filter(last_at__lt=before).delete()
    return gone + Notice.objects.filter(made_at__lt=before)._raw_delete(Notice.objects.db)
