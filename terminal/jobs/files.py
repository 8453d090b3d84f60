"""Jobs in a file: YAML or JSON, `manager` and `jobs`.

Owns the form. Invariant: what is written can be read again and says the same jobs; what a job has by default is left
out, as whoever reads a file wants to see what is special. No secret is ever in it: a job names secrets.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from rest_framework.utils.encoders import JSONEncoder

from api.jobs import bodies
from api.jobs.bodies import JobBody
from api.shapes import ListOf
from jobs.applying import MOST_JOBS
from jobs.http_target import DEFAULT_TIMEOUT_SECONDS, HTTP_QUEUE, HTTP_TASK
from jobs.models import Job
from jobs.specification import Specification
from terminal.frame import refuse
from terminal.jobs.options import read_yaml

DEFAULT_MANAGER = "file"
_KNOWN = ("manager", "jobs")


@dataclass(frozen=True)
class Said:
    """What files say: whose jobs, and which; as they were read, and not checked yet."""

    manager: str
    jobs: list[Any]

    def key_of(self, place: int) -> str:
        job = self.jobs[place]
        key = job.get("key") if isinstance(job, dict) else None
        return key if isinstance(key, str) else f"job {place + 1}"


def read(sources: Sequence[str], *, manager: str | None) -> Said:
    """The jobs of all files together. The manager is the one that was typed, or that the files name."""
    named: dict[str, str] = {}
    jobs: list[Any] = []
    for source in sources:
        said = _document(source)
        jobs += said["jobs"]
        if "manager" in said:
            named[str(said["manager"])] = source
    if manager is None and len(named) > 1:
        (one, here), (other, there), *_ = named.items()
        refuse(f"{here} is of the manager {one!r} and {there} of {other!r}; apply them apart, or name one --manager.")
    return Said(manager or next(iter(named), DEFAULT_MANAGER), jobs)


def _document(source: str) -> dict[str, Any]:
    said = read_yaml(source)
    if isinstance(said, list):
        said = {"jobs": said}
    if not isinstance(said, dict) or not isinstance(said.get("jobs"), list):
        refuse(f"{source} does not hold jobs: write a list of them under `jobs:`, as `jobs export` does.")
    for name in said:
        if name not in _KNOWN:
            refuse(f"{source} says {name!r}, which means nothing here; there are {' and '.join(_KNOWN)}.")
    return dict(said)


def checked(jobs: Sequence[Any]) -> list[dict[str, Any]]:
    """Each read by its shape."""
    read: list[dict[str, Any]] = ListOf(child=JobBody(), max_length=MOST_JOBS).run_validation(list(jobs))
    return read


# ── Written ──────────────────────────────────────────────────────────────────────────────────────────────────────


def document(jobs: Sequence[Job], *, manager: str, is_whole: bool) -> dict[str, Any]:
    """With their schedules loaded."""
    written = [as_plain(bodies.written(job, getattr(job, "schedule", None))) for job in jobs]
    return {"manager": manager, "jobs": written if is_whole else [compact(body) for body in written]}


def as_plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """Moments as text."""
    read: dict[str, Any] = json.loads(json.dumps(body, cls=JSONEncoder))
    return read


def compact(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is as by default."""
    return _special(body, _standard(is_http="http" in body["target"]))


def _special(body: Mapping[str, Any], standard: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in body.items():
        default = standard.get(name)
        if isinstance(value, dict) and isinstance(default, dict) and name != "kwargs":
            inner = _special(value, default)
            if inner:
                kept[name] = inner
        elif name not in standard or value != default:
            kept[name] = value
    return kept


@cache
def _standard(*, is_http: bool) -> dict[str, Any]:
    """What a job says of which nothing is said."""
    target: dict[str, Any] = {"method": "POST", "headers": {}, "body": None, "expected": [], "secret": None}
    said = Specification(key="", task=HTTP_TASK if is_http else "").normalised()
    body = as_plain(bodies.of_specification(said))
    del body["key"]
    body["queue"] = HTTP_QUEUE if is_http else body["queue"]
    body["target"] = {"http": {**target, "timeout": DEFAULT_TIMEOUT_SECONDS, "asynchronous": False}} if is_http else {}
    body["schedule"] = {
        "timezone": "UTC",
        "start": None,
        "end": None,
        "max_fires": None,
        "jitter": 0,
        "misfire": as_plain(_misfire()),
    }
    return body


def _misfire() -> dict[str, Any]:
    standard = Specification(key="", task="")
    return {
        "policy": standard.misfire.lower(),
        "grace": standard.misfire_grace_seconds,
        "limit": standard.misfire_limit,
    }


def as_yaml(document: Mapping[str, Any]) -> str:
    """With what a person reads first on top, and an empty line between jobs."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 110, "Dumper": dumper}
    head = yaml.dump({"manager": document["manager"]}, **options)
    if not document["jobs"]:
        return f"{head}jobs: []\n"
    return f"{head}jobs:\n" + "\n".join(yaml.dump([job], **options) for job in document["jobs"])
