"""What the beats do for notifications: look at what happened, and make notices of it.

Owns one look. It is one transaction under the lock of one row: facts → troubles → notices with their runs → how far it
has looked. Invariants: it happens as a whole or not at all, so that whoever dies in it leaves the look to the next; two
at once are one after the other, and the second finds nothing; what it costs depends on what went wrong, never on how
many jobs there are or how much went well; where nobody wants to be told it is one question.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby

from django.conf import settings
from django.db import transaction

from executions import events
from notifications import facts, lateness, notices, recoveries, troubles
from notifications.kinds import FAILING, Kind
from notifications.lateness import LateJobs
from notifications.models import Lookout, Receiver, Trouble

# Commits come in another order than their moments: most within seconds, and after an outage within minutes.
LOOK_BACK = timedelta(seconds=15)
LOOK_FAR_BACK = timedelta(minutes=10)
FAR_BACK_EVERY = timedelta(minutes=1)
_MOST_TROUBLES = 200
# A quiet look writes nothing, for so long.
_WRITE_AFTER = timedelta(seconds=30)


def look(now: datetime) -> int:
    """Look once; how many notices were made."""
    if not Receiver.objects.exists():
        return 0
    with transaction.atomic():
        lookout = _held(now)
        if lookout is None:
            return 0  # another beat looks at this moment
        receivers = list(Receiver.objects.select_related("job").order_by("pk"))
        active = [receiver for receiver in receivers if receiver.is_active]
        if not active:
            lookout.position = lookout.not_before = now
            lookout.save()
            return 0
        made = _look(lookout, active, now=now)
    if made:
        events.emit("notifications are made", count=made)
    return made


def _held(now: datetime) -> Lookout | None:
    """The row, locked until the transaction ends; None: somebody else has it."""
    rows = Lookout.objects.select_for_update(skip_locked=True)
    lookout = rows.first()
    if lookout is None and not Lookout.objects.exists():
        first = min(now, *Receiver.objects.values_list("since", flat=True))
        fresh = Lookout(position=first, deep_at=now, not_before=first)
        Lookout.objects.bulk_create([fresh], ignore_conflicts=True)
        lookout = rows.first()
    return lookout


def _look(lookout: Lookout, receivers: Sequence[Receiver], *, now: datetime) -> int:
    is_deep = now - lookout.deep_at >= FAR_BACK_EVERY or now < lookout.deep_at
    back = LOOK_FAR_BACK if is_deep else LOOK_BACK
    earliest = max(lookout.not_before, min(receiver.since for receiver in receivers))
    seen = facts.unseen(max(lookout.position - back, earliest))
    troubles.add(seen.facts, receivers)
    wanting = [receiver for receiver in receivers if receiver.wants(Kind.LATENESS)]
    late = _late(wanting, now=now)
    troubles.begin_late(late, wanting, now=now)
    made = notices.tell_troubles(receivers, now=now)
    # After what began was told: both may have happened since the last look.
    caught_up = troubles.caught_up(late, wanting, now=now) if wanting else []
    made += _tell_what_is_over(lookout, caught_up, receivers, now=now)
    if is_deep and seen.up_to is None:
        lookout.deep_at = now
        _forget(now)
    position = now if seen.up_to is None else max(seen.up_to, lookout.position)
    has_moved = seen.facts or seen.up_to or is_deep or made or lookout.has_turned
    if has_moved or abs(position - lookout.position) >= _WRITE_AFTER:
        lookout.position = position
        lookout.save()
    return made


def _late(wanting: Sequence[Receiver], *, now: datetime) -> LateJobs:
    """What is late for anybody, and what would soon be."""
    if not wanting:
        return LateJobs({}, is_all=True)
    soonest = min(receiver.late_after_seconds for receiver in wanting)
    return lateness.late_jobs(now - timedelta(seconds=soonest) / 2)


def _tell_what_is_over(
    lookout: Lookout, caught_up: Sequence[Trouble], receivers: Sequence[Receiver], *, now: datetime
) -> int:
    told = [notice for trouble in caught_up for notice in notices.tell_caught_up(trouble, now=now)]
    ended = list(caught_up)
    open_ones = troubles.open_ones(receivers, FAILING, most=_MOST_TROUBLES, pk__gt=lookout.after_trouble)
    lookout.turn(open_ones[-1].pk if len(open_ones) == _MOST_TROUBLES else 0)
    successes = recoveries.since(open_ones, now=now)
    if successes:
        # Of a job that succeeded all kinds, also those beyond what was looked at.
        of_jobs = troubles.open_ones(receivers, FAILING, job_id__in=list(successes))
        of_jobs.sort(key=lambda one: (one.receiver_id, one.job_id))
        for (_, job_id), group in groupby(of_jobs, key=lambda one: (one.receiver_id, one.job_id)):
            these, success = list(group), successes[job_id]
            if all(one.last_at < success.at for one in these):
                told += notices.tell_success(these, success, now=now)
                ended += these
    if ended:
        notices.end(ended)
    return notices.make(told, receivers, now=now)


def _forget(now: datetime) -> None:
    facts.forget(now - 3 * LOOK_FAR_BACK)
    notices.forget(now - timedelta(days=settings.ONBEAT_EXECUTIONS_RETENTION_DAYS))
