"""Beats: whether they tick, and whether they are one crew."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings

from beat import health, shards
from beat.models import Beat
from executions.version import VERSION
from executions.words import away, count
from terminal.doctor.findings import Examined, Fault, Finding, named
from terminal.doctor.visit import Visit

NONE_TICKS = Fault(
    "beats.E01",
    means="Nothing fires, nothing is rescued, and what is due waits in the database; nothing of it is lost.",
    remedy="Start a beat with `./onbeat run_beat`, or see in its log why it does not tick.",
)
REFUSES = Fault(
    "beats.W01",
    means="A beat whose clock is wrong leaves its fires to the others.",
    remedy="Set the clock of its machine right, best by NTP.",
)
SILENT = Fault(
    "beats.W02",
    means="It went without signing off, hangs, or is cut off from the database; the others do its work.",
    remedy="See what became of its machine; one that is gone for good is taken off the registry after an hour.",
)
CUT_OFF = Fault(
    "beats.W03",
    means="It plans and cannot publish, or works without leases; the others publish what they find.",
    remedy="See why its machine does not reach what the others reach.",
)
OTHER_RELEASE = Fault(
    "beats.W04",
    means="Two releases side by side are fine while one replaces the other, and for no longer than that.",
    remedy="Restart the beats with this release, or call the doctor of theirs.",
)
SHARDS_UNOWNED = Fault(
    "beats.W05",
    means="Fires of these jobs are planned only when they are overdue, a few seconds late.",
    remedy="Call the doctor again: beats share anew within seconds. If it stays, restart the beats.",
)


def examine(visit: Visit) -> Examined:
    finding = health.ticking(visit.now)
    findings = [] if finding.is_well else [NONE_TICKS.found(f"{finding.says[:1].upper()}{finding.says[1:]}.")]
    findings += [*_refusing(visit), *_silent(visit), *_cut_off(visit), *_releases(visit), *_shards(visit)]
    return Examined(finding.says if finding.is_well else "none ticks", findings)


def _lately() -> timedelta:
    return timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)


def _refusing(visit: Visit) -> Iterator[Finding]:
    for beat in Beat.objects.refusing_since(visit.now - _lately()).order_by("name")[:20]:
        yield REFUSES.found(f"{beat.name} does not fire: {beat.refusal}.", beat=beat.name)


def _silent(visit: Visit) -> Iterator[Finding]:
    silent = list(Beat.objects.silent_since(visit.now - _lately()).order_by("name"))
    if silent:
        heard = max(beat.heard_at for beat in silent)  # type: ignore[attr-defined]
        says = f"Not heard of: {named([beat.name for beat in silent])}; the last word was {away(heard, now=visit.now)}."
        yield SILENT.found(says, beats=[beat.name for beat in silent])


def _cut_off(visit: Visit) -> Iterator[Finding]:
    for what, beats in (
        ("the broker", [beat.name for beat in visit.ticking if beat.is_broker_away]),
        ("Redis", [beat.name for beat in visit.ticking if beat.is_redis_away]),
    ):
        if beats:
            yield CUT_OFF.found(f"{count(len(beats), 'beat')} cannot reach {what}: {named(beats)}.", beats=beats)


def _releases(visit: Visit) -> Iterator[Finding]:
    others = sorted({beat.version or "unknown" for beat in visit.ticking} - {VERSION})
    if others:
        beats = [beat.name for beat in visit.ticking if beat.version != VERSION]
        says = f"{count(len(beats), 'beat')} of release {', '.join(others)}, and this is {VERSION}: {named(beats)}."
        yield OTHER_RELEASE.found(says, beats=beats, releases=others)


def _shards(visit: Visit) -> Iterator[Finding]:
    owned = sum(beat.shards for beat in visit.ticking)
    if visit.ticking and owned < shards.COUNT:
        yield SHARDS_UNOWNED.found(f"The beats look after {owned} of {shards.COUNT} shards.", owned=owned)
