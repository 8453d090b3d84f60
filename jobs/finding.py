"""Find a job by its key."""

import re
from difflib import get_close_matches

from jobs.models import Job
from jobs.refusals import NoSuchJob

_LOOKED_AT = 1000
_ID = re.compile(r"[0-9]{1,18}", re.ASCII)


def find(job: Job | str) -> Job:
    """The open job of a key, or a job that was read before, as it is now."""
    if isinstance(job, Job):
        return Job.objects.get(pk=job.pk)
    if not isinstance(job, str) or not job.isprintable():
        raise NoSuchJob(str(job), [])  # no database could be asked for some of these
    found = Job.objects.open().filter(key=job).first()
    if found is None:
        raise NoSuchJob(job, _near(job), is_over=Job.objects.filter(key=job).exists())
    return found


def _near(key: str) -> list[str]:
    """The nearest keys among those that begin alike: people mistype the middle and the end."""
    alike = Job.objects.open().filter(key__istartswith=key[:1]).order_by("key").values_list("key", flat=True)
    return get_close_matches(key, list(alike[:_LOOKED_AT]), n=3, cutoff=0.6)


def find_any(key: str) -> Job:
    """The open job of a key, or the one that had it last."""
    try:
        return find(key)
    except NoSuchJob:
        over = Job.objects.filter(key=key).order_by("-pk").first() if key.isprintable() else None
        if over is None:
            raise
        return over


def find_said(name: str) -> Job:
    """What a person means who wants to look at a job: a key, of one that is over as well; or else an id."""
    try:
        return find_any(name)
    except NoSuchJob:
        job = Job.objects.filter(pk=int(name)).first() if _ID.fullmatch(name) else None
        if job is None:
            raise
        return job
