"""The next fires: of a job, or of a schedule that is not stored yet."""

from collections.abc import Mapping
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
from jobs.models import Job, Kind, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidRun
from jobs.shifts import with_remarks
from jobs.upcoming import MOST_SHOWN, upcoming
from jobs.wording import in_words

SHOWN = 10
_MOST_USED_UP = 10_000


class PreviewQuery(Query):
    count = WholeInQuery(required=False, min_value=1, max_value=MOST_SHOWN, help_text=f"{SHOWN} if left out.")


class PreviewBody(Body):
    schedule = ScheduleBody()
    key = Text(required=False, help_text="Of the job it is meant for: an H in a cron is spread by it.")
    count = Whole(required=False, min_value=1, max_value=MOST_SHOWN, help_text=f"{SHOWN} if left out.")
    after = Moment(required=False, help_text="From then on, and not from now: to look at a clock change, for example.")


class FireAnswer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    local = serializers.CharField(help_text="What the clocks of the schedule's zone show then.")
    remark = serializers.CharField(allow_blank=True, help_text="What a clock change does to it, if one does.")


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
        count = PreviewQuery.read(request).get("count", SHOWN)
        return Response(of_job(job_named(job), count=count, now=database_now()))


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
        more = {name: body[name] for name in ("key", "count", "after") if name in body}
        return Response(of_schedule(body["schedule"], now=database_now(), **more))


def of_job(job: Job, *, count: int, now: datetime, after: datetime | None = None) -> dict[str, Any]:
    """The next fires of a stored schedule, as if it were not paused; from another moment on, if one is named."""
    schedule = schedule_of(job)
    if schedule is None:
        return {"in_words": "only when asked", "fires": [], "warnings": []}
    if not schedule.is_readable:
        raise InvalidRun("job", f"The schedule {str(schedule)!r} of {job.key!r} cannot be read; give it another one.")
    if schedule.fires_left is not None:
        count = min(count, _still_left(schedule, now, after or now))
    said = warnings.uneven_steps(schedule.expression) if schedule.kind == Kind.CRON else []
    return _answer(schedule.recurrence, after or now, count, schedule.in_words, said)


def _still_left(schedule: Schedule, now: datetime, after: datetime) -> int:
    """Of its number of fires, after those that come before then."""
    assert schedule.fires_left is not None
    used_up, fire = 0, schedule.recurrence.next_after(now)
    while fire is not None and fire <= after and used_up < schedule.fires_left:
        used_up, fire = used_up + 1, schedule.recurrence.next_after(fire)
        if used_up == _MOST_USED_UP:
            refuse("after", f"More than {_MOST_USED_UP} fires come before this; choose an earlier moment.")
    return schedule.fires_left - used_up


def of_schedule(
    said: Mapping[str, Any], *, now: datetime, key: str = "", count: int = SHOWN, after: datetime | None = None
) -> dict[str, Any]:
    """The next fires of a schedule as a body says it."""
    schedule = bodies.recurrence(said, now=now)
    if key:
        schedule = of_key(schedule, key)
    count = min(count, said.get("max_fires") or MOST_SHOWN)
    return _answer(schedule, after or now, count, in_words(schedule), warnings.uneven_steps(said.get("cron", "")))


def of_key(schedule: Cron | Every | Once | Within, key: str) -> Cron | Every | Once | Within:
    """Spread by this key, where it has an `H`."""
    if isinstance(schedule, Within):
        return Within(of_key(schedule.recurrence, key), schedule.start, schedule.end)  # type: ignore[arg-type]
    return Cron(schedule.expression, schedule.timezone, key) if isinstance(schedule, Cron) else schedule


def _answer(
    schedule: Cron | Every | Once | Within, after: datetime, count: int, words: str, said: list[str]
) -> dict[str, Any]:
    try:
        fires = with_remarks(schedule, upcoming(schedule, after=after, count=count), since=after)
    except (OverflowError, ValueError):
        refuse("after", "This is too far from any calendar; choose a moment between 1970 and 2999.")
    return {
        "in_words": words,
        "fires": [{"at": fire.at, "local": fire.local.isoformat(), "remark": fire.remark} for fire in fires],
        "warnings": said,
    }
