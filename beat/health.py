"""Whether ticks really happen, and what the beats could reach in them."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q

from beat.models import Beat
from executions.health import Finding


def ticking(now: datetime) -> Finding:
    beats = list(Beat.objects.ticking(now, within=_lately()))
    if beats:
        published = [beat for beat in beats if beat.lateness_seconds is not None]
        latest = max(published, key=lambda beat: beat.lateness_seconds or 0, default=None)
        late = f", {latest.lateness_in_words} late at most when they last published" if latest else ""
        return Finding(is_well=True, says=f"{len(beats)} ticking{late}")
    refusing = Beat.objects.refusing_since(now - _lately()).first()
    if refusing:
        return Finding(is_well=False, says=f"no beat fires: {refusing.refusal}")
    latest = Beat.objects.exclude(ticked_at=None).order_by("-ticked_at").first()
    last = f"the last tick was at {latest.ticked_at:%Y-%m-%d %H:%M:%S} UTC" if latest else "none has ticked yet"
    return Finding(is_well=False, says=f"no beat ticks: {last}; see its log, or start one with `./onbeat run_beat`")


def reaching_broker(now: datetime) -> Finding:
    """Not vital: jobs are still planned and accepted, and executions wait in the database."""
    return _reaching(now, "is_broker_away", "the broker", "executions wait in the database until it is back")


def reaching_redis(now: datetime) -> Finding:
    """Not vital: the database decides alone."""
    return _reaching(now, "is_redis_away", "Redis", "beats work without leases until it is back")


def agreeing_on_the_time(now: datetime) -> Finding:
    """Not vital while others fire: a beat whose clock is wrong leaves its fires to them."""
    refusing = Beat.objects.refusing_since(now - _lately()).first()
    if refusing is None:
        return Finding(is_well=True, says="no beat refuses to fire", is_vital=False)
    return Finding(is_well=False, says=f"{refusing.name} does not fire: {refusing.refusal}", is_vital=False)


def _reaching(now: datetime, is_away: str, what: str, meanwhile: str) -> Finding:
    beats = Beat.objects.ticking(now, within=_lately()).aggregate(
        all=Count("pk"), cut_off=Count("pk", filter=Q(**{is_away: True}))
    )
    if not beats["cut_off"]:
        return Finding(is_well=True, says=f"no beat misses {what}", is_vital=False)
    says = f"{beats['cut_off']} of {beats['all']} beats cannot reach {what}: {meanwhile}"
    return Finding(is_well=False, says=says, is_vital=False)


def _lately() -> timedelta:
    return timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
