"""Executions: list, read, cancel, retry now, replay."""

from datetime import datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api import pages
from api.executions import deeds
from api.executions.answers import ExecutionPage, FullExecutionAnswer, in_full, in_list
from api.executions.filters import ExecutionQuery, sought
from api.executions.named import attempts_of, found
from api.pages import limit_of
from api.schema import creating, documented
from api.shapes import Body, Named, NoBody, Text, Values
from api.views import ApiView, changes, creates
from executions.clock import database_now
from executions.finding import Place, newest_first

TAG = "Executions"
_PLACE = (datetime, UUID)
BY_ID = OpenApiParameter("id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="The id of the execution.")


class CancelBody(Body):
    reason = Text(required=False, max_length=200, help_text="Why; kept on the execution.")


class ReplayBody(Body):
    args = Values(required=False, help_text="In place of those it had.")
    kwargs = Named(required=False, help_text="In place of those it had.")
    note = Text(required=False, max_length=200, help_text="What was decided; kept on a dead letter.")


class OutcomeAnswer(serializers.Serializer[Any]):
    outcome = serializers.CharField()


class ReplayAnswer(serializers.Serializer[Any]):
    id = serializers.UUIDField(help_text="Of the new execution.")
    replay_of = serializers.UUIDField()


class ExecutionsView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "executions_list",
        "List executions, the latest fire first",
        tag=TAG,
        query=ExecutionQuery,
        answers={200: ExecutionPage},
        also=[404],
    )
    def get(self, request: Request) -> Response:
        query = ExecutionQuery.read(request)
        after = Place(*pages.read(query["cursor"], _PLACE)) if "cursor" in query else None
        page = newest_first(sought(query), limit=limit_of(query), now=database_now(), after=after)
        cursor = None if page.last is None else pages.written(*page.last)
        return pages.answer(request, [in_list(row) for row in page.rows], cursor)


class ExecutionView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "executions_read",
        "Read an execution with its attempts, and why it is where it is",
        tag=TAG,
        answers={200: FullExecutionAnswer},
        also=[404],
        parameters=[BY_ID],
    )
    def get(self, _request: Request, id: UUID) -> Response:
        row = found(id)
        return Response(in_full(row, attempts_of(row), now=database_now()))


class CancelView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @documented(
        "executions_cancel",
        "Cancel an execution",
        tag=TAG,
        body=CancelBody,
        answers={200: OutcomeAnswer},
        also=[404, 409],
        parameters=[BY_ID],
        description="One that runs is asked to stop, and killed after its grace.",
        examples=[("With a reason", {"reason": "the customer left"})],
    )
    @changes
    def post(self, request: Request, id: UUID) -> Response:
        body = CancelBody.read(request)
        return Response({"outcome": deeds.cancel(found(id), **body, **self.signature)})


class RetryNowView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @documented(
        "executions_retry_now",
        "Let the next attempt come now",
        tag=TAG,
        body=NoBody,
        answers={200: OutcomeAnswer},
        also=[404, 409],
        parameters=[BY_ID],
        description="For an execution that waits for its next attempt. One that is over is replayed.",
    )
    @changes
    def post(self, request: Request, id: UUID) -> Response:
        NoBody.read(request)
        deeds.retry_now(found(id), **self.signature)
        return Response({"outcome": "its next attempt comes now"})


class ReplayView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @creating(
        "executions_replay",
        "Run an execution again, as a new one",
        tag=TAG,
        body=ReplayBody,
        answers={201: ReplayAnswer},
        also=[404],
        parameters=[BY_ID],
        description="With the same payload or another. A dead letter counts as handled then.",
        examples=[
            ("As it was", {}),
            ("With another payload", {"kwargs": {"message": "hello"}, "note": "a typo is mended"}),
        ],
    )
    @creates
    def post(self, request: Request, id: UUID) -> Response:
        body = ReplayBody.read(request)
        new = deeds.replay(found(id), **body, **self.signature)
        return Response({"id": new, "replay_of": id}, status=HTTPStatus.CREATED)
