"""Statistics by the hour: fires, outcomes, lateness and duration."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.jobs.named import job_named
from api.operations.workers import TAG
from api.problems import bad_parameter
from api.schema import documented
from api.shapes import Moment, Query
from api.views import ApiView
from executions import hourly
from executions.clock import database_now

_DAY = timedelta(days=1)
_LONGEST = timedelta(days=92)


class StatisticsQuery(Query):
    since = Moment(required=False, help_text="Hours that begin from here on; the last 24 if left out.")
    until = Moment(required=False, help_text="Hours that begin before this; now if left out.")
    job = serializers.CharField(required=False, help_text="The key of a job that is not over, or the id of any.")
    queue = serializers.CharField(required=False)


class SpreadAnswer(serializers.Serializer[Any]):
    p50 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)
    p99 = serializers.FloatField(allow_null=True)
    mean = serializers.FloatField(allow_null=True)
    longest = serializers.FloatField(allow_null=True)


class HourAnswer(serializers.Serializer[Any]):
    hour = serializers.DateTimeField(help_text="Its beginning.")
    fires = serializers.IntegerField()
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="By state.")
    started = serializers.IntegerField()
    lateness = SpreadAnswer(help_text="Seconds from when it was due to its beginning, right to about 10 %.")
    duration = SpreadAnswer(help_text="Seconds that the last attempt ran, right to about 10 %.")


class StatisticsAnswer(serializers.Serializer[Any]):
    hours = HourAnswer(many=True)


class StatisticsView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "statistics_list",
        "Fires, outcomes, lateness and duration by the hour",
        tag=TAG,
        query=StatisticsQuery,
        answers={200: StatisticsAnswer},
        also=[404],
        description="Counted every minute for the last hours, by fire time; hours without a fire are left out.",
    )
    def get(self, request: Request) -> Response:
        query = StatisticsQuery.read(request)
        return Response({"hours": [asdict(hour) for hour in hours_of(query, now=database_now())]})


def hours_of(said: Mapping[str, Any], *, now: datetime) -> list[hourly.Hour]:
    """Of a job, a queue or everything; the oldest first, without those that had no fire."""
    until = said.get("until") or now
    since = said.get("since") or until - _DAY
    if until - since > _LONGEST:
        raise bad_parameter("since", f"Ask for up to {_LONGEST.days} days at once.")
    job = job_named(said["job"]) if "job" in said else None
    return hourly.hours(start=since, end=until, job_id=None if job is None else job.pk, queue=said.get("queue", ""))
