"""Create or change many jobs in one call: all of them or none."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.jobs import bodies, deeds
from api.jobs.bodies import JobBody
from api.jobs.examples import ONE_OFF, RECURRING
from api.jobs.named import anchor_of, check_state
from api.jobs.views import TAG
from api.problems import Place, Problem, place_of
from api.schema import creating
from api.shapes import Body, ListOf
from api.views import ApiView, creates
from executions.clock import database_now
from jobs.models import Job, JobQuerySet, JobState
from jobs.refusals import Refused, StaleVersion
from jobs.upserts import MOST_AT_ONCE, Became, RefusedItems, Said


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
        wanted = said_of(read, sent["jobs"], now=now)
        try:
            done = deeds.put(wanted, now=now, **self.signature)
        except RefusedItems as refused:
            raise problem_of_items(refused.refusals) from None
        answers = [
            {"key": put.job.key, "id": put.job.pk, "version": put.job.version, "became": put.became.value}
            for put in done
        ]
        return Response({"jobs": answers})


def said_of(items: Sequence[dict[str, Any]], sent: Sequence[Any], *, now: datetime) -> list[Said]:
    """What bodies that were read by their shape say; `sent` is the same as it was sent, with what only answers have."""
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
        raise problem_of_items(refusals, places)
    return said


def _there(keys: Sequence[str]) -> JobQuerySet:
    """Those of these keys that are stored: an interval without an anchor keeps the one it has."""
    return Job.objects.open().filter(key__in=keys).select_related("schedule")


def _check_echo(sent: Mapping[str, Any], job: Job | None) -> None:
    """What only answers have, in a body that was read and is sent back: it must still be so."""
    check_state(sent, JobState.ACTIVE if job is None else job.state)
    if job is not None and sent.get("version", job.version) != job.version:
        raise StaleVersion(key=job.key, read=sent["version"], current=job.version)


def problem_of_items(refusals: Mapping[int, Refused], more: Sequence[Place] = ()) -> Problem:
    places = [place_of(refused, below=f"/jobs/{place}") for place, refused in refusals.items()]
    places = sorted([*places, *more], key=lambda place: int((place.pointer or "//0").split("/")[2]))
    return Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"{len(places)} of the jobs cannot be stored, so none was." if len(places) > 1 else str(places[0]),
        places=places,
    )
