"""Runs that somebody asks for: now, later, many at once; moved and cancelled by their key."""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.jobs import deeds
from api.jobs.named import job_named, subject_of
from api.jobs.views import BY_NAME
from api.problems import Problem, not_there, place_of
from api.schema import creating, documented, in_path
from api.shapes import Body, ListOf, Moment, Named, Query, Text, Values, Whole
from api.views import ApiView, changes, creates
from executions import run_keys
from executions.models import MAX_PRIORITY, Execution
from jobs import runs
from jobs.models import Job
from jobs.refusals import InvalidRun
from jobs.runs import MOST_AT_ONCE, Asked, ByKey, Wanted

TAG = "Runs"
_LONGEST_DELAY = 36_600 * 86_400  # seconds; the horizon of the settings is shorter
BY_RUN_KEY = in_path("run_key", "The name that the run was given.", example="user-123")


class WhenBody(Body):
    run_at = Moment(required=False, help_text="The moment, with an offset.")
    delay = Whole(required=False, min_value=0, max_value=_LONGEST_DELAY, help_text="In so many seconds from now.")


class RunBody(WhenBody):
    """Without run_at and delay it runs now; without args and kwargs as the job says."""

    args = Values(required=False, help_text="In place of the job's.")
    kwargs = Named(required=False, help_text="In place of the job's.")
    run_key = Text(required=False, max_length=200, help_text="Names the run: it can be moved and cancelled by it.")
    priority = Whole(required=False, min_value=0, max_value=MAX_PRIORITY, help_text="In place of the job's.")


class BulkRunBody(Body):
    runs = ListOf(child=RunBody(), max_length=MOST_AT_ONCE, help_text="In the order of the answers.")


class CancelQuery(Query):
    reason = Text(required=False, help_text="Why; kept on the execution.")


class AskedAnswer(serializers.Serializer[Any]):
    id = serializers.UUIDField(help_text="Of the execution.")
    is_new = serializers.BooleanField(help_text="False: the run key is in use, and this is the run that has it.")


class BulkAskedAnswer(serializers.Serializer[Any]):
    runs = AskedAnswer(many=True)


class ByKeyAnswer(serializers.Serializer[Any]):
    outcome = serializers.ChoiceField(choices=["moved", "cancelled", "asked to stop"])


class RunKeyAnswer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    state = serializers.CharField()
    available_at = serializers.DateTimeField()


class RunsView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @creating(
        "jobs_run",
        "Run a job now or later",
        tag=TAG,
        body=RunBody,
        answers={201: AskedAnswer, 200: AskedAnswer},
        also=[404],
        parameters=[BY_NAME],
        examples=[
            ("Now", {}),
            ("In an hour, under a name", {"delay": 3600, "kwargs": {"message": "hello"}, "run_key": "user-123"}),
        ],
    )
    @creates
    def post(self, request: Request, job: str) -> Response:
        found = job_named(job)
        asked = deeds.run(found, [wanted(RunBody.read(request))], **self.signature)[0]
        return Response(_answer(asked), status=HTTPStatus.CREATED if asked.is_new else HTTPStatus.OK)


class BulkRunsView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @creating(
        "jobs_run_bulk",
        "Run a job many times",
        tag=TAG,
        body=BulkRunBody,
        answers={201: BulkAskedAnswer},
        also=[404],
        parameters=[BY_NAME],
        description=f"Up to {MOST_AT_ONCE} runs, stored all or not at all.",
        examples=[("Two reminders", {"runs": [{"delay": 60, "run_key": "a"}, {"delay": 120, "run_key": "b"}]})],
    )
    @creates
    def post(self, request: Request, job: str) -> Response:
        found = job_named(job)
        try:
            asked = deeds.run(found, [wanted(body) for body in BulkRunBody.read(request)["runs"]], **self.signature)
        except InvalidRun as refused:
            if refused.place is None:
                raise
            place = place_of(refused, below=f"/runs/{refused.place}")
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(place), places=[place]) from None
        return Response({"runs": [_answer(each) for each in asked]}, status=HTTPStatus.CREATED)


class RunByKeyView(ApiView):
    needs = {"GET": Role.VIEWER, "PUT": Role.OPERATOR, "DELETE": Role.OPERATOR}

    @documented(
        "jobs_run_read",
        "Find a run by its key",
        tag=TAG,
        answers={200: RunKeyAnswer},
        also=[404],
        parameters=[BY_NAME, BY_RUN_KEY],
    )
    def get(self, _request: Request, job: str, run_key: str) -> Response:
        found = job_named(job)
        execution_id = run_keys.found(found.pk, run_key)
        row = None if execution_id is None else Execution.objects.with_id(execution_id).first()
        if row is None:
            raise not_there(_unknown(found, run_key))
        return Response({"id": row.pk, "state": row.state, "available_at": row.available_at})

    @documented(
        "jobs_run_move",
        "Move a run that waits",
        tag=TAG,
        body=WhenBody,
        answers={200: ByKeyAnswer},
        also=[404, 409],
        parameters=[BY_NAME, BY_RUN_KEY],
        examples=[("Two hours from now", {"delay": 7200})],
    )
    @changes
    def put(self, request: Request, job: str, run_key: str) -> Response:
        found, when = job_named(job), WhenBody.read(request)
        outcome = runs.move(found, run_key, run_at=when.get("run_at"), delay=_delay(when))
        if outcome is ByKey.TOO_LATE:
            raise Problem(
                HTTPStatus.CONFLICT, f"The run {run_key!r} runs, or is about to: it can be cancelled, and not moved."
            )
        return self._answer(found, run_key, outcome, "run.move", "moved", after=when)

    @documented(
        "jobs_run_cancel",
        "Cancel a run by its key",
        tag=TAG,
        query=CancelQuery,
        answers={200: ByKeyAnswer},
        also=[404],
        parameters=[BY_NAME, BY_RUN_KEY],
        description="One that runs already is asked to stop.",
    )
    @changes
    def delete(self, request: Request, job: str, run_key: str) -> Response:
        found = job_named(job)
        outcome = runs.cancel(found, run_key, reason=CancelQuery.read(request).get("reason") or "cancelled")
        return self._answer(found, run_key, outcome, "run.cancel", "cancelled")

    def _answer(self, job: Job, run_key: str, outcome: ByKey, action: str, done: str, *, after: Any = None) -> Response:
        if outcome is ByKey.UNKNOWN:
            raise not_there(_unknown(job, run_key))
        self.record(action, f"{subject_of(job)}/{run_key}", after=after)
        return Response({"outcome": done if outcome is ByKey.DONE else outcome.value})


def wanted(body: Mapping[str, Any]) -> Wanted:
    said = {name: body[name] for name in ("run_at", "args", "kwargs", "run_key", "priority") if name in body}
    return Wanted(delay=_delay(body), **said)


def _delay(body: Mapping[str, Any]) -> timedelta | None:
    return timedelta(seconds=body["delay"]) if "delay" in body else None


def _answer(asked: Asked) -> dict[str, Any]:
    return {"id": asked.execution_id, "is_new": asked.is_new}


def _unknown(job: Job, run_key: str) -> str:
    return f"No run of {job.key!r} that is not over has the key {run_key[:80]!r}."
