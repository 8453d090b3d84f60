"""Run the fires of a past range: first look, then do it."""

from http import HTTPStatus
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.jobs import deeds
from api.jobs.named import job_named
from api.jobs.views import BY_NAME, TAG
from api.schema import creating
from api.shapes import Body, Flag, Moment, Whole
from api.views import ApiView, creates
from jobs.backfill import DEFAULT_PER_MINUTE, MOST_PER_MINUTE, Preview, preview

_SHOWN = 200


class BackfillBody(Body):
    start = Moment(help_text="The first fire time, included.")
    end = Moment(help_text="The last one, included.")
    per_minute = Whole(
        required=False,
        min_value=1,
        max_value=MOST_PER_MINUTE,
        help_text=f"How many are published in a minute; {DEFAULT_PER_MINUTE} if left out.",
    )
    dry_run = Flag(required=False, help_text="True if left out: say what would be done, and do nothing.")


class PastFireAnswer(serializers.Serializer[Any]):
    fire_time = serializers.DateTimeField()
    becomes = serializers.ChoiceField(choices=["new", "revived", "kept"])
    available_at = serializers.DateTimeField(allow_null=True, help_text="When it is published; null: it is kept.")


class BackfillAnswer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    per_minute = serializers.IntegerField()
    new = serializers.IntegerField(help_text="Fires without a row.")
    revived = serializers.IntegerField(help_text="Fires that were skipped.")
    kept = serializers.IntegerField(help_text="Fires whose row stays as it is.")
    to_run = serializers.IntegerField()
    ends_at = serializers.DateTimeField(allow_null=True, help_text="When the last one is published.")
    left_from = serializers.DateTimeField(allow_null=True, help_text="From here on they are left to the beats.")
    fires = PastFireAnswer(many=True, help_text=f"The first {_SHOWN}.")


class BackfillView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @creating(
        "jobs_backfill",
        "Run the fires of a past range",
        tag=TAG,
        body=BackfillBody,
        answers={200: BackfillAnswer, 201: BackfillAnswer},
        also=[404],
        parameters=[BY_NAME],
        description="Those that have no row yet or were skipped, each once. A dry run unless `dry_run` is false.",
        examples=[("Look first", {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T00:00:00Z", "dry_run": True})],
    )
    @creates
    def post(self, request: Request, job: str) -> Response:
        body, found = BackfillBody.read(request), job_named(job)
        asked = {"start": body["start"], "end": body["end"], "per_minute": body.get("per_minute", DEFAULT_PER_MINUTE)}
        if body.get("dry_run", True):
            return Response(_answer(preview(found, **asked), is_dry=True))
        done = deeds.backfill(found, **asked, **self.signature)
        return Response(_answer(done, is_dry=False), status=HTTPStatus.CREATED)


def _answer(seen: Preview, *, is_dry: bool) -> dict[str, Any]:
    names = ("start", "end", "per_minute", "new", "revived", "kept", "to_run", "ends_at", "left_from")
    shown = seen.fires[:_SHOWN]
    return {
        "dry_run": is_dry,
        **{name: getattr(seen, name) for name in names},
        "fires": [
            {"fire_time": fire.fire_time, "becomes": fire.becomes.value, "available_at": fire.available_at}
            for fire in shown
        ],
    }
