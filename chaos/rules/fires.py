"""Every fire once, and none that was not to be."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from chaos.evidence import Evidence, Row, Version, moment
from chaos.journal import Entry
from chaos.policies import allowed
from chaos.walk import Expected, expected, step_of

_CHANGING = ("change", "pause", "resume", "create", "archive")


def each_fire_once(evidence: Evidence) -> Iterator[str]:
    """Every expected (job, fire_time) has exactly one row or lies in one skipped range, and there are no others."""
    rows = _scheduled(evidence)
    for job, fires in _expected(evidence).items():
        plain = Counter(row.fire_time for row in rows[job] if row.skipped_until is None)
        counts = {fire: plain[fire] + sum(_covers(row, fire) for row in rows[job]) for fire in fires.must | fires.may}
        for fire in sorted(fires.must):
            if counts[fire] != 1:
                yield f"{job} at {fire:%H:%M:%S} has {counts[fire]} rows"
        for fire in sorted(fires.may):
            if counts[fire] > 1:
                yield f"{job} at {fire:%H:%M:%S}, as it was changed, has {counts[fire]} rows"
        for row in rows[job]:
            if row.skipped_until and row.fire_time <= evidence.until and not any(_covers(row, fire) for fire in counts):
                yield f"{job} was skipped at {row.fire_time:%H:%M:%S}, where its schedule names no fire"
        for fire, count in sorted(plain.items()):
            if fire <= evidence.until and fire not in counts:
                yield f"{job} at {fire:%H:%M:%S} has {count} rows, and its schedule names no such fire"
    for job in rows.keys() - {version.job for version in evidence.versions}:
        yield f"{job} fired, and there is no version of it"


def _covers(row: Row, fire: datetime) -> bool:
    return row.skipped_until is not None and row.fire_time <= fire <= row.skipped_until


def a_pause_is_one(evidence: Evidence) -> Iterator[str]:
    """Of a fire within a pause there is a row that it was left out, if any."""
    rows = _scheduled(evidence)
    for job, fires in _expected(evidence).items():
        for row in rows[job]:
            if row.skipped_until is None and row.fire_time in fires.paused and row.state != "SKIPPED":
                yield f"{job} at {row.fire_time:%H:%M:%S} was paused, and its row is {row.state}"


def nothing_left_out_without_leave(evidence: Evidence) -> Iterator[str]:
    """SKIPPED by an overlap policy, a pause or a change; no fault here is so long that a fire would be missed."""
    for row in evidence.rows:
        if row.state == "SKIPPED" and (row.trigger != "SCHEDULE" or not allowed(row.job).skips):
            yield f"{row.job} {row.id} was skipped, and nothing allows that: {row.reason or 'no reason'}"


def versions_say_what_was_asked_for(evidence: Evidence) -> Iterator[str]:
    """The schedules by which fires are expected are the product's own, so these are looked at first."""
    by_job = versions_by_job(evidence)
    for job, step in evidence.load.items():
        first = by_job[job][0] if by_job[job] else None
        if first is None or step_of(first.schedule) != step:
            yield f"{job} was made to fire every {step} s, and its first version says otherwise"
    for job, versions in by_job.items():
        numbers = [version.number for version in versions]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{job} has the versions {numbers}"
    for entry in evidence.journal:
        told = _version_of(entry, by_job[entry.job])
        if told is not None and entry.step is not None and step_of(told.schedule) != entry.step:
            yield f"{entry.caller} let {entry.job} fire every {entry.step} s, and its version {told.number} does not"


def _version_of(entry: Entry, versions: Sequence[Version]) -> Version | None:
    return next((version for version in versions if version.number == entry.version), None)


# ── What is expected ─────────────────────────────────────────────────────────────────────────────────────────────────


def _scheduled(evidence: Evidence) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in evidence.rows:
        if row.trigger == "SCHEDULE":
            found[row.job].append(row)
    return found


def _expected(evidence: Evidence) -> dict[str, Expected]:
    return {
        job: expected(versions, until=evidence.until, answered_at=_answers(evidence, job, versions))
        for job, versions in versions_by_job(evidence).items()
    }


def versions_by_job(evidence: Evidence) -> defaultdict[str, list[Version]]:
    by_job: defaultdict[str, list[Version]] = defaultdict(list)
    for version in sorted(evidence.versions, key=lambda each: each.number):
        by_job[version.job].append(version)
    return by_job


def _answers(evidence: Evidence, job: str, versions: Sequence[Version]) -> dict[int, datetime]:
    """When the caller who made a version had the answer in hand; missing where none came."""
    found: dict[int, datetime] = {}
    for entry in evidence.journal:
        if entry.job != job or entry.answered_at is None or entry.deed not in _CHANGING:
            continue
        for version in versions:
            is_its_own = entry.sent_at <= version.changed_at.timestamp() <= entry.answered_at
            if version.number == entry.version or (entry.version is None and is_its_own):
                # The first: who asks for what is so already is told of the version that is there.
                found.setdefault(version.number, moment(entry.answered_at))
    return found
