"""Dead letters: what waits for a person, in groups of errors that look alike; run again, or discarded."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api import pages
from api.executions import deeds
from api.pages import PageQuery
from api.schema import creating, documented
from api.shapes import Body, Flag, Id, ListOf, Moment, Named, Query, Text, Values, Whole
from api.views import ApiView, changes, creates
from executions.clock import database_now
from executions.dead_letters import DEFAULT_REPLAYS_PER_SECOND
from executions.models import DeadMessage
from jobs import dead_letters
from jobs.dead_letters import MOST_REPLAYS_PER_SECOND, Group, Matching

TAG = "Dead letters"
_BATCH = 2000
_MOST_IDS = 1000
_SUBJECT = "dead letters matching a filter"
_LARGEST_ID = 2**63 - 1


class MatchingQuery(Query):
    fingerprint = serializers.CharField(required=False)
    job = serializers.CharField(required=False, help_text="The key of a job.")
    task = serializers.CharField(required=False)
    queue = serializers.CharField(required=False, help_text="As the job names it.")
    since = Moment(required=False, help_text="Given up from here on.")
    until = Moment(required=False, help_text="Given up before this.")


class MatchingBody(Body):
    ids = ListOf(child=Id(), required=False, max_length=_MOST_IDS, help_text="Of executions.")
    fingerprint = Text(required=False)
    job = Text(required=False, help_text="The key of a job.")
    task = Text(required=False)
    queue = Text(required=False, help_text="As the job names it.")
    since = Moment(required=False, help_text="Given up from here on.")
    until = Moment(required=False, help_text="Given up before this.")


class ReplayDeadBody(Body):
    filter = MatchingBody(help_text="Which of those that wait; an empty object means all.")
    dry_run = Flag(required=False, help_text="True if left out: count, and do nothing.")
    per_second = Whole(
        required=False,
        min_value=1,
        max_value=MOST_REPLAYS_PER_SECOND,
        help_text=f"How many become due in a second; {DEFAULT_REPLAYS_PER_SECOND} if left out.",
    )
    begins_at = Moment(required=False, help_text="The first comes then; from the `next` of the answer before.")
    note = Text(required=False, max_length=200)
    args = Values(required=False, help_text="In place of those they had.")
    kwargs = Named(required=False, help_text="In place of those they had.")


class DiscardDeadBody(Body):
    filter = MatchingBody(help_text="Which of those that wait; an empty object means all.")
    dry_run = Flag(required=False, help_text="True if left out: count, and do nothing.")
    note = Text(max_length=200, help_text="What was decided about them.")


class MessageIdsBody(Body):
    ids = ListOf(child=Whole(min_value=1, max_value=_LARGEST_ID), max_length=_MOST_IDS)
    note = Text(required=False, max_length=200)


class DiscardMessagesBody(Body):
    ids = ListOf(child=Whole(min_value=1, max_value=_LARGEST_ID), max_length=_MOST_IDS)
    note = Text(max_length=200, help_text="What was decided about them.")


class GroupAnswer(serializers.Serializer[Any]):
    fingerprint = serializers.CharField(allow_blank=True)
    count = serializers.IntegerField()
    executions = serializers.IntegerField()
    messages = serializers.IntegerField(help_text="Messages that belong to no execution.")
    jobs = serializers.ListField(child=serializers.CharField())
    tasks = serializers.ListField(child=serializers.CharField())
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    example = serializers.CharField(allow_blank=True)


class GroupsAnswer(serializers.Serializer[Any]):
    groups = GroupAnswer(many=True)


class SettledAnswer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    done = serializers.IntegerField()
    remaining = serializers.IntegerField()
    next = serializers.DictField(allow_null=True, help_text="The body to send next, until this is null.")


class DeadMessageAnswer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    queue = serializers.CharField(allow_blank=True)
    task = serializers.CharField(allow_blank=True)
    error = serializers.CharField(allow_blank=True)
    fingerprint = serializers.CharField(allow_blank=True)
    collected_at = serializers.DateTimeField()


class DeadMessagePage(serializers.Serializer[Any]):
    items = DeadMessageAnswer(many=True)
    next = serializers.CharField(allow_null=True)


class MessagesReplayedAnswer(serializers.Serializer[Any]):
    replayed = serializers.ListField(child=serializers.IntegerField())
    left = serializers.DictField(child=serializers.CharField(), help_text="By id: why it was not replayed.")


class MessagesDiscardedAnswer(serializers.Serializer[Any]):
    discarded = serializers.IntegerField()


class GroupsView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "dead_letters_groups",
        "Dead letters by errors that look alike, the largest group first",
        tag=TAG,
        query=MatchingQuery,
        answers={200: GroupsAnswer},
    )
    def get(self, request: Request) -> Response:
        found = dead_letters.groups(_matching(MatchingQuery.read(request)))
        return Response({"groups": [as_json(group) for group in found]})


class ReplayDeadView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @creating(
        "dead_letters_replay",
        "Run dead letters again, at a pace",
        tag=TAG,
        body=ReplayDeadBody,
        answers={200: SettledAnswer},
        description=f"Up to {_BATCH} in one call. Begin with a dry run; then send its `next`, and the `next` of each "
        "answer, until it is null. Each is replayed once, whoever else asks at the same time.",
        examples=[("Look first", {"filter": {"job": "daily-invoice-gen"}, "per_second": 5})],
    )
    @creates
    def post(self, request: Request) -> Response:
        body = ReplayDeadBody.read(request)
        matching = _matching(body["filter"])
        if body.get("dry_run", True):
            return _dry(request, matching)
        per_second = body.get("per_second", DEFAULT_REPLAYS_PER_SECOND)
        wishes = {name: body[name] for name in ("note", "args", "kwargs", "begins_at") if name in body}
        done = deeds.replay_dead(
            matching,
            subject=_SUBJECT,
            said=body["filter"],
            per_second=per_second,
            most=_BATCH,
            **wishes,
            **self.signature,
        )
        last = done.last_due_at
        carried = {} if last is None else {"begins_at": last + timedelta(seconds=1 / per_second)}
        return _settled(request, matching, done.count, carried)


class DiscardDeadView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @documented(
        "dead_letters_discard",
        "Mark dead letters as handled without running them",
        tag=TAG,
        body=DiscardDeadBody,
        answers={200: SettledAnswer},
        description=f"Up to {_BATCH} in one call. Begin with a dry run; then send its `next`, and the `next` of each "
        "answer, until it is null.",
        examples=[("Look first", {"filter": {"job": "daily-invoice-gen"}, "note": "the tenant is gone"})],
    )
    @changes
    def post(self, request: Request) -> Response:
        body = DiscardDeadBody.read(request)
        matching = _matching(body["filter"])
        if body.get("dry_run", True):
            return _dry(request, matching)
        done = deeds.discard_dead(
            matching, subject=_SUBJECT, said=body["filter"], note=body["note"], most=_BATCH, **self.signature
        )
        return _settled(request, matching, done, {})


class MessagesView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "dead_messages_list",
        "Dead messages that belong to no execution, the latest first",
        tag=TAG,
        query=PageQuery,
        answers={200: DeadMessagePage},
        description="Those that nobody has handled. Their bodies are not shown.",
    )
    def get(self, request: Request) -> Response:
        query = PageQuery.read(request)
        found, cursor = pages.newest_first(messages_waiting(Matching()), query)
        return pages.answer(request, [message_as_json(row) for row in found], cursor)


class ReplayMessagesView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @documented(
        "dead_messages_replay",
        "Publish dead messages again, unchanged, into the queue each came from",
        tag=TAG,
        body=MessageIdsBody,
        answers={200: MessagesReplayedAnswer},
        examples=[("One", {"ids": [1]})],
    )
    def post(self, request: Request) -> Response:
        body = MessageIdsBody.read(request)
        done = deeds.replay_messages(body["ids"], note=body.get("note", ""), **self.signature)
        return Response({"replayed": done.replayed, "left": {str(pk): why for pk, why in done.left.items()}})


class DiscardMessagesView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @documented(
        "dead_messages_discard",
        "Mark dead messages as handled",
        tag=TAG,
        body=DiscardMessagesBody,
        answers={200: MessagesDiscardedAnswer},
        examples=[("One", {"ids": [1], "note": "not ours"})],
    )
    @changes
    def post(self, request: Request) -> Response:
        body = DiscardMessagesBody.read(request)
        return Response({"discarded": deeds.discard_messages(body["ids"], note=body["note"], **self.signature)})


def _matching(said: Mapping[str, Any]) -> Matching:
    return Matching(**said)


def as_json(group: Group) -> dict[str, Any]:
    names = ("fingerprint", "count", "executions", "messages", "jobs", "tasks", "first_at", "last_at", "example")
    return {name: getattr(group, name) for name in names}


def messages_waiting(matching: Matching) -> QuerySet[DeadMessage]:
    """The latest first, without what may be long."""
    return matching.messages().defer("body", "headers", "properties").order_by("-pk")


def message_as_json(message: DeadMessage) -> dict[str, Any]:
    names = ("id", "queue", "task", "error", "fingerprint", "collected_at")
    return {name: getattr(message, name) for name in names}


def _dry(request: Request, matching: Matching) -> Response:
    remaining = _remaining(matching)
    following = _next(request, {}) if remaining else None
    return Response({"dry_run": True, "done": 0, "remaining": remaining, "next": following})


def _settled(request: Request, matching: Matching, done: int, carried: Mapping[str, Any]) -> Response:
    remaining = _remaining(matching) if done else 0
    following = _next(request, carried) if remaining else None
    return Response({"dry_run": False, "done": done, "remaining": remaining, "next": following})


def _remaining(matching: Matching) -> int:
    return matching.executions().count()


def _next(request: Request, carried: Mapping[str, Any]) -> dict[str, Any]:
    """What gave up after the first call is none of its business, however many calls follow."""
    said: Any = request.data
    return {
        **said,
        "filter": {**said["filter"], "until": said["filter"].get("until", database_now())},
        "dry_run": False,
        **carried,
    }
