"""The job that an address names: by its id, or by its key."""

import re

from rest_framework.request import Request

from api.problems import bad_header, not_there
from jobs.finding import find
from jobs.models import Job

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
    """The version that If-Match names; None: whichever it is."""
    given = request.headers.get("If-Match")
    if given is None or given.strip() == "*":
        return None
    found = _VERSION.fullmatch(given.strip())
    if found is None:
        raise bad_header("If-Match", 'If-Match must be the ETag of the job as it was read, such as "3".')
    return int(found[1])
