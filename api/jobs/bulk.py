"""Create or change many jobs in one call: all of them or none."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access import audit
from access.roles import Role
from api.jobs import bodies
from api.jobs.bodies import JobBody
from api.jobs.examples import ONE_OFF, RECURRING
from api.jobs.named import anchor_of, check_state, subject_of
from api.jobs.views import TAG
from api.problems import Place, Problem, place_of
from api.schema import creating
from api.shapes import Body, ListOf
from api.views import THROUGH, ApiView, creates
from executions.clock import database_now
from jobs import upserts
from jobs.models import Job, JobQuerySet, JobState, JobVersion
from jobs.refusals import Refused, StaleVersion
from jobs.upserts import MOST_AT_ONCE, Became, Put, RefusedItems, Said


class BulkBody(Body):
    jobs = ListOf(child=JobBody(), max_length=MOST_AT_ONCE, help_text="Each by its key.")


class PutAnswer(serializers.Serializer[Any]):
    key = serializers.CharField()
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    became = serializers.ChoiceField(choices=[became.value for became in Became])


class BulkAnswer(serializers.Serializer[Any]):
    jobs = PutAnswer(many=True)


class BulkJobsView(ApiView):
    needs = {"POST": Role.EDITOR}

    @creating(
        "jobs_put_bulk",
        "Create or replace many jobs",
        tag=TAG,
        body=BulkBody,
        answers={200: BulkAnswer},
        description=f"Up to {MOST_AT_ONCE}, by their keys; all are stored or none. If some cannot be, `errors` names "
        "each of them. Jobs that say it already keep their versions.",
        examples=[("Two jobs", {"jobs": [RECURRING, ONE_OFF]})],
    )
    @creates
    def post(self, request: Request) -> Response:
        now = database_now()
        read = BulkBody.read(request)["jobs"]
        sent: Any = request.data
        wanted = _said(read, sent["jobs"], now=now)
        try:
            done = upserts.put(wanted, now=now, **self.signature)
        except RefusedItems as refused:
            raise _problem(refused.refusals) from None
        self._record(done, now=now)
        answers = [
            {"key": put.job.key, "id": put.job.pk, "version": put.job.version, "became": put.became.value}
            for put in done
        ]
        return Response({"jobs": answers})

    def _record(self, done: Sequence[Put], *, now: datetime) -> None:
        changed = [put for put in done if put.became is not Became.UNCHANGED]
        kept = _kept([put.job for put in changed])
        audit.record_many(
            (
                audit.Deed(
                    action="job.create" if put.became is Became.CREATED else "job.change",
                    subject=subject_of(put.job),
                    **dict(zip(("before", "after"), _before_and_after(put, kept), strict=True)),
                )
                for put in changed
            ),
            who=self.caller.name,
            through=THROUGH,
            now=now,
        )


def _before_and_after(put: Put, kept: Mapping[tuple[int, int], Any]) -> tuple[Any, Any]:
    after = kept[put.job.pk, put.job.version]
    before = None if put.became is Became.CREATED else kept.get((put.job.pk, put.job.version - 1))
    return (None, after) if before is None else audit.what_changed(before, after)


def _kept(jobs: Sequence[Job]) -> dict[tuple[int, int], Any]:
    """The definitions of their last two versions, from their history."""
    newest = {job.pk: job.version for job in jobs}
    numbers = {number - back for number in newest.values() for back in (0, 1)}
    versions = JobVersion.objects.filter(job__in=newest, version__in=numbers)
    rows = versions.values_list("job_id", "version", "definition")
    return {(pk, number): definition for pk, number, definition in rows if number >= newest[pk] - 1}


def _said(items: Sequence[dict[str, Any]], sent: Sequence[Any], *, now: datetime) -> list[Said]:
    there = {job.key: job for job in _there([item["key"] for item in items])}
    said: list[Said] = []
    refusals: dict[int, Refused] = {}
    places: list[Place] = []
    for place, item in enumerate(items):
        try:
            job = there.get(item["key"])
            _check_echo(sent[place], job)
            schedule = getattr(job, "schedule", None)
            said.append(bodies.said(item, now=now, anchor=anchor_of(schedule)))
        except Refused as refused:
            refusals[place] = refused
        except Problem as problem:
            places += [Place(each.detail, pointer=f"/jobs/{place}{each.pointer}") for each in problem.places]
    if refusals or places:
        raise _problem(refusals, places)
    return said


def _there(keys: Sequence[str]) -> JobQuerySet:
    """Those of these keys that are stored: an interval without an anchor keeps the one it has."""
    return Job.objects.open().filter(key__in=keys).select_related("schedule")


def _check_echo(sent: Mapping[str, Any], job: Job | None) -> None:
    """What only answers have, in a body that was read and is sent back: it must still be so."""
    check_state(sent, JobState.ACTIVE if job is None else job.state)
    if job is not None and sent.get("version", job.version) != job.version:
        raise StaleVersion(key=job.key, read=sent["version"], current=job.version)


def _problem(refusals: Mapping[int, Refused], more: Sequence[Place] = ()) -> Problem:
    places = [place_of(refused, below=f"/jobs/{place}") for place, refused in refusals.items()]
    places = sorted([*places, *more], key=lambda place: int((place.pointer or "//0").split("/")[2]))
    return Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"{len(places)} of the jobs cannot be stored, so none was." if len(places) > 1 else str(places[0]),
        places=places,
    )
