"""The job that an address names: by its id, or by its key; and what views ask of it."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rest_framework.request import Request

from api.problems import Place, bad_body, bad_header, not_there, refuse
from api.shapes import shown
from jobs.finding import find
from jobs.models import Job, Kind, Schedule
from jobs.specification import stored_definition

_ID = re.compile(r"[0-9]{1,18}", re.ASCII)
_VERSION = re.compile(r'(?:W/)?"([0-9]{1,9})"', re.ASCII)  # a proxy that compresses makes an ETag a weak one


def job_named(name: str) -> Job:
    """Digits are an id, of a job in any state; everything else is the key of one that is not over."""
    if not _ID.fullmatch(name):
        return find(name)
    job = Job.objects.select_related("schedule").filter(pk=int(name)).first()
    if job is None:
        raise not_there(f"There is no job with the id {name}; a key of digits alone is found at /jobs/by-key/{name}.")
    return job


def version_wanted(request: Request) -> int | None:
    """The version that If-Match names, or else the body that was read before and is sent back; None: whichever."""
    given = request.headers.get("If-Match")
    if given is None:
        return _version_in_body(request.data)
    if given.strip() == "*":
        return None
    found = _VERSION.fullmatch(given.strip())
    if found is None:
        raise bad_header("If-Match", 'If-Match must be the ETag of the job as it was read, such as "3".')
    return int(found[1])


def _version_in_body(said: Any) -> int | None:
    version = said.get("version") if isinstance(said, Mapping) else None
    if version is not None and type(version) is not int:
        raise bad_body([Place(f"This must be a whole number, not {shown(version)}.", pointer="/version")])
    return version


def check_state(said: Any, state: str) -> None:
    """A state that a body names is not set by it, and not passed over in silence either."""
    given = said.get("state", state) if isinstance(said, Mapping) else state
    if given != state:
        refuse(
            "state",
            f"The job is {state}, and a definition does not change that: leave state out; pause, resume and DELETE do.",
        )


def held(job: Job) -> Job:
    """As it is now, and nobody changes it until the transaction ends."""
    return Job.objects.select_for_update().get(pk=job.pk)


def schedule_of(job: Job) -> Schedule | None:
    return Schedule.objects.select_related("job").filter(job_id=job.pk).first()


def anchor_of(schedule: Schedule | None) -> datetime | None:
    return schedule.anchor_at if schedule is not None and schedule.kind == Kind.EVERY else None


def subject_of(job: Job) -> str:
    return f"job:{job.key}"


def as_stored(job: Job) -> dict[str, Any]:
    """For the audit trail."""
    return as_held(job, schedule_of(job))


def as_held(job: Job, schedule: Schedule | None) -> dict[str, Any]:
    """The same for whoever has read both."""
    pause = {"reason": job.paused_reason, "until": job.paused_until} if job.paused_reason or job.paused_until else None
    return {**stored_definition(job, schedule), "state": job.state, "pause": pause}
