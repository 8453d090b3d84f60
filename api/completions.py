"""The address by which a receiver tells how it goes on with what it accepted. Who has it needs no key."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.callers import BySignature
from api.problems import Problem, refuse
from api.schema import documented, in_path
from api.shapes import Body, Flag, Number, OneOf, Plain, Text
from api.views import OpenView, changes
from callbacks import completions
from callbacks.completions import Told, Word
from executions.clock import database_now
from executions.identity import fire_time_of
from executions.models import Attempt, Execution
from executions.outcomes import Finish

_ONLY_OF = {
    "result": Told.SUCCEEDED,
    "error": Told.FAILED,
    "final": Told.FAILED,
    "done": Told.PROGRESS,
    "total": Told.PROGRESS,
    "note": Told.PROGRESS,
}


class CompletionBody(Body):
    """How it goes, or how it ended."""

    status = OneOf(choices=[str(told) for told in Told])
    result = Plain(required=False, allow_null=True, help_text="With succeeded: what to keep as the result.")
    error = Text(required=False, max_length=completions.ERROR_CHARACTERS, help_text="With failed: why.")
    final = Flag(required=False, help_text="With failed: no further attempt would end otherwise.")
    done = Number(required=False, help_text="With progress: how much is done.")
    total = Number(required=False, allow_null=True, help_text="With progress: of how much.")
    note = Text(required=False, help_text="With progress: a few words.")


class CompletionAnswer(serializers.Serializer[Any]):
    state = serializers.CharField(help_text="Of the execution, from now on.")


class CompletionView(OpenView):
    authentication_classes = [BySignature]

    @documented(
        "completions_tell",
        "Tell how an accepted callback goes on, or how it ended",
        tag="Callbacks",
        body=CompletionBody,
        answers={200: CompletionAnswer},
        also=[404, 409],
        parameters=[
            in_path("id", "The execution.", example="01a1ea2f-095e-7c00-a095-23c00ffd1f21", kind=OpenApiTypes.UUID),
            in_path("attempt", "Its attempt.", example=1, kind=OpenApiTypes.INT),
            in_path("signature", "As Onbeat-Completion-Url had it.", example="…"),
        ],
        description="The whole address comes with the request, as Onbeat-Completion-Url, and needs no key. To tell the "
        "same end twice is no error.",
        examples=[("It is done", {"status": "succeeded", "result": {"rows": 12}})],
    )
    @changes
    def post(self, request: Request, id: UUID, attempt: int, signature: str) -> Response:  # noqa: ARG002
        word = _word(CompletionBody.read(request))
        if completions.tell(id, attempt, word, now=database_now()) is Finish.REFUSED and not _was_told(
            id, attempt, word
        ):
            raise Problem(
                HTTPStatus.CONFLICT, f"Attempt {attempt} is over, and nothing that is told of it counts any more."
            )
        return Response({"state": Execution.objects.with_id(id).values_list("state", flat=True).get()})


def _word(body: dict[str, Any]) -> Word:
    told = Told(body["status"])
    for name in body:
        if _ONLY_OF.get(name, told) is not told:
            refuse(name, f"{name} belongs to {_ONLY_OF[name]}; leave it out of {told}.")
    if told is Told.PROGRESS and "done" not in body:
        refuse("done", "done is missing.")
    fields = {name: body[name] for name in ("result", "error", "done", "total", "note") if name in body}
    return Word(told, **fields, is_final=body.get("final", False))


def _was_told(execution_id: UUID, attempt: int, word: Word) -> bool:
    """A receiver that did not hear our answer tells the same once more."""
    outcomes = {Told.SUCCEEDED: "SUCCEEDED", Told.FAILED: "FAILED"}
    attempts = Attempt.objects.filter(execution_id=execution_id, fire_time=fire_time_of(execution_id))
    return attempts.filter(number=attempt, outcome=outcomes.get(word.told, "")).exists()
