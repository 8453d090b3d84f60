"""The next fires: of a job, or of a schedule that is not stored yet."""

from datetime import datetime
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.jobs import bodies, warnings
from api.jobs.bodies import ScheduleBody
from api.jobs.named import job_named, schedule_of
from api.jobs.views import BY_NAME, TAG
from api.problems import refuse
from api.schema import documented
from api.shapes import Body, Moment, Query, Text, Whole, WholeInQuery
from api.views import ApiView
from executions.clock import database_now
from jobs import dst
from jobs.models import Kind
from jobs.recurrence import Cron, Every, Once, Within
from jobs.upcoming import MOST_SHOWN, upcoming
from jobs.wording import in_words

_SHOWN = 10


class PreviewQuery(Query):
    count = WholeInQuery(required=False, min_value=1, max_value=MOST_SHOWN, help_text=f"{_SHOWN} if left out.")


class PreviewBody(Body):
    schedule = ScheduleBody()
    key = Text(required=False, help_text="Of the job it is meant for: an H in a cron is spread by it.")
    count = Whole(required=False, min_value=1, max_value=MOST_SHOWN, help_text=f"{_SHOWN} if left out.")
    after = Moment(required=False, help_text="From then on, and not from now: to look at a clock change, for example.")


class FireAnswer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    local = serializers.CharField(help_text="What the clocks of the schedule's zone show then.")


class PreviewAnswer(serializers.Serializer[Any]):
    in_words = serializers.CharField()
    fires = FireAnswer(many=True)
    warnings = serializers.ListField(child=serializers.CharField())


class JobPreviewView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "jobs_preview",
        "The next fires of a job",
        tag=TAG,
        query=PreviewQuery,
        answers={200: PreviewAnswer},
        also=[404, 422],
        parameters=[BY_NAME],
        description="As if it were not paused.",
    )
    def get(self, request: Request, job: str) -> Response:
        count = PreviewQuery.read(request).get("count", _SHOWN)
        found = job_named(job)
        schedule = schedule_of(found)
        if schedule is None:
            return Response({"in_words": "only when asked", "fires": [], "warnings": []})
        if schedule.fires_left is not None:
            count = min(count, schedule.fires_left)
        said = warnings.uneven_steps(schedule.expression) if schedule.kind == Kind.CRON else []
        return Response(_answer(schedule.recurrence, database_now(), count, schedule.in_words, said))


class SchedulePreviewView(ApiView):
    needs = {"POST": Role.VIEWER}

    @documented(
        "schedules_preview",
        "The next fires of a schedule that is not stored",
        tag=TAG,
        body=PreviewBody,
        answers={200: PreviewAnswer},
        examples=[("Weekdays in Berlin", {"schedule": {"cron": "30 7 * * 1-5", "timezone": "Europe/Berlin"}})],
    )
    def post(self, request: Request) -> Response:
        body = PreviewBody.read(request)
        now = database_now()
        schedule = bodies.recurrence(body["schedule"], now=now)
        if key := body.get("key", ""):
            schedule = of_key(schedule, key)
        count = min(body.get("count", _SHOWN), body["schedule"].get("max_fires") or MOST_SHOWN)
        said = warnings.uneven_steps(body["schedule"].get("cron", ""))
        return Response(_answer(schedule, body.get("after", now), count, in_words(schedule), said))


def of_key(schedule: Cron | Every | Once | Within, key: str) -> Cron | Every | Once | Within:
    """Spread by this key, where it has an `H`."""
    if isinstance(schedule, Within):
        return Within(of_key(schedule.recurrence, key), schedule.start, schedule.end)  # type: ignore[arg-type]
    return Cron(schedule.expression, schedule.timezone, key) if isinstance(schedule, Cron) else schedule


def _answer(
    schedule: Cron | Every | Once | Within, after: datetime, count: int, words: str, said: list[str]
) -> dict[str, Any]:
    pattern = schedule.recurrence if isinstance(schedule, Within) else schedule
    zone = dst.zone_named(pattern.timezone if isinstance(pattern, Cron) else "UTC")
    try:
        fires = upcoming(schedule, after=after, count=count)
    except (OverflowError, ValueError):
        refuse("after", "This is too far from any calendar; choose a moment between 1970 and 2999.")
    return {
        "in_words": words,
        "fires": [{"at": moment, "local": moment.astimezone(zone).isoformat()} for moment in fires],
        "warnings": said,
    }
