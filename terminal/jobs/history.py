"""What a job was: its versions, and what differs between two of them."""

from argparse import ArgumentParser
from typing import Any

from api.jobs import bodies
from api.jobs.history import version_answer, version_of
from jobs.differences import Difference, differences
from jobs.finding import find_said
from jobs.models import Job, JobVersion
from terminal.frame import Asked, Told, Verb
from terminal.jobs.listing import key_argument, limit_of
from terminal.paper import as_json, coloured, strong, table


class History(Verb):
    name = "history"
    does = "tell who changed a job, when and through what; or what differs between two versions"
    examples = ("jobs history billing.daily", "jobs history billing.daily --diff 3 5")

    def add_arguments(self, parser: ArgumentParser) -> None:
        key_argument(parser)
        parser.add_argument("--diff", nargs=2, type=int, metavar=("FROM", "TO"), help="What differs between these two.")
        parser.add_argument(
            "--limit", type=int, default=50, help="How many versions, the latest first; 50 if not given."
        )

    def act(self, asked: Asked) -> Told:
        job = find_said(asked["key"])
        return _differing(job, *asked["diff"]) if asked["diff"] else _versions(job, limit_of(asked["limit"]))


def _versions(job: Job, limit: int) -> Told:
    rows = JobVersion.objects.filter(job=job).defer("definition").order_by("-version")[:limit]
    data = [version_answer(row) for row in rows]
    cells = [
        (
            str(each["version"]),
            each["change"].lower(),
            each["changed_at"],
            each["changed_by"],
            each["through"],
            each["note"],
        )
        for each in data
    ]
    return Told(
        {"job": job.key, "versions": data},
        [table(("VERSION", "WHAT", "WHEN", "WHO", "THROUGH", "NOTE"), cells, right=["VERSION"])],
    )


def _differing(job: Job, since: int, until: int) -> Told:
    before, after = (bodies.of_version(version_of(job, number).definition) for number in (since, until))
    found = differences(before, after)
    data = {"job": job.key, "since": since, "until": until, "differences": [vars(each) for each in found]}
    if not found:
        return Told(data, [f"Versions {since} and {until} of {job.key} say the same."])
    return Told(data, [strong(f"{job.key}, version {since} → {until}"), *difference_lines(found)])


def difference_lines(found: list[Difference], *, indent: int = 2) -> list[Any]:
    """Each field as it was, and as it is."""
    edge = " " * indent
    lines: list[Any] = []
    for each in found:
        lines.append(f"{edge}{each.field}")
        if each.before is not None:
            lines.append(coloured(f"{edge}  - {_said(each.before)}", "bad"))
        if each.after is not None:
            lines.append(coloured(f"{edge}  + {_said(each.after)}", "ok"))
    return lines


def _said(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value).strip()
