"""Cancel or replay everything that matches a filter: first look, then a batch at a time."""

from datetime import UTC
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.executions import deeds
from api.executions.filters import FilterBody, sought
from api.executions.views import TAG
from api.problems import refuse
from api.schema import creating, documented
from api.shapes import Body, Flag, Id, Text, Whole
from api.views import ApiView, changes, creates
from executions.clock import database_now
from executions.identity import is_ours
from jobs import sweeps
from jobs.sweeps import DEFAULT_BATCH, MOST_COUNTED, MOST_IN_A_BATCH, Deed


class SweepBody(Body):
    filter = FilterBody(help_text="Which executions. At least one condition.")
    note = Text(required=False, max_length=200, help_text="Why; kept on the executions.")
    dry_run = Flag(required=False, help_text="True if left out: count, and do nothing.")
    batch = Whole(
        required=False,
        min_value=1,
        max_value=MOST_IN_A_BATCH,
        help_text=f"How many at once; {DEFAULT_BATCH} if left out.",
    )
    after = Id(required=False, help_text="From the `next` of the answer before.")


class SweepAnswer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    done = serializers.IntegerField(help_text="Cancelled before they ran, or replayed, by this call.")
    asked_to_stop = serializers.IntegerField(help_text="Running ones that were asked to stop by this call.")
    remaining = serializers.IntegerField(help_text=f"How many are still to come; counted up to {MOST_COUNTED}.")
    next = serializers.DictField(
        allow_null=True, help_text="The body to send next, until this is null: then everything is done."
    )


class _SweepView(ApiView):
    deed: Deed

    def _sweep(self, request: Request) -> Response:
        body = SweepBody.read(request)
        now = database_now()
        after, limit = body.get("after"), body.get("batch", DEFAULT_BATCH)
        if after is not None and not is_ours(after):
            refuse("after", f"{after} is no id of an execution; take it from the answer before.")
        # What is stored from now on is none of this sweep's business, however many calls it takes.
        conditions = {"created_before": now, **body["filter"]}
        wanted = sought(conditions)
        if body.get("dry_run", True):
            remaining = sweeps.count(self.deed, wanted, after=after, now=now)
            following = self._next(request, conditions, after) if remaining else None
            return Response({"dry_run": True, "done": 0, "asked_to_stop": 0, "remaining": remaining, "next": following})
        swept = deeds.sweep(
            self.deed,
            wanted,
            said=conditions,
            note=body.get("note", ""),
            limit=limit,
            after=after,
            now=now,
            **self.signature,
        )
        remaining = 0 if swept.last is None else sweeps.count(self.deed, wanted, after=swept.last, now=now)
        following = self._next(request, conditions, swept.last) if remaining else None
        return Response(
            {
                "dry_run": False,
                "done": swept.done,
                "asked_to_stop": swept.asked_to_stop,
                "remaining": remaining,
                "next": following,
            }
        )

    def _next(self, request: Request, conditions: dict[str, Any], after: Any) -> dict[str, Any]:
        said: Any = request.data
        created_before = conditions["created_before"].astimezone(UTC)
        return {
            **{name: value for name, value in said.items() if name != "after"},
            "filter": {**said["filter"], "created_before": created_before},
            "dry_run": False,
            **({} if after is None else {"after": after}),
        }


_EXAMPLES = [("Look first", {"filter": {"job": "daily-invoice-gen", "state": ["SCHEDULED", "QUEUED"]}})]


class CancelMatchingView(_SweepView):
    needs = {"POST": Role.OPERATOR}
    deed = Deed.CANCEL

    @documented(
        "executions_cancel_matching",
        "Cancel all executions that match",
        tag=TAG,
        body=SweepBody,
        answers={200: SweepAnswer},
        also=[404],
        description="Of what matches, that which is not over. Begin with a dry run; then send its `next`, and the "
        "`next` of each answer, until it is null.",
        examples=_EXAMPLES,
    )
    @changes
    def post(self, request: Request) -> Response:
        return self._sweep(request)


class ReplayMatchingView(_SweepView):
    needs = {"POST": Role.OPERATOR}
    deed = Deed.REPLAY

    @creating(
        "executions_replay_matching",
        "Replay all executions that match",
        tag=TAG,
        body=SweepBody,
        answers={200: SweepAnswer},
        also=[404],
        description="Of what matches, that which is over; dead letters only if nobody has handled them. Begin with a "
        "dry run; then send its `next`, and the `next` of each answer, until it is null.",
        examples=[("Look first", {"filter": {"state": ["DEAD"], "since": "2026-11-01T00:00:00Z"}})],
    )
    @creates
    def post(self, request: Request) -> Response:
        return self._sweep(request)
