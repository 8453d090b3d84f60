"""Executions as the API answers them."""

from datetime import datetime
from typing import Any

from rest_framework import serializers

from executions import timeline, why
from executions.models import Attempt, Execution
from executions.states import Outcome, State, Trigger
from executions.storable import stored_in_a_line

_COLUMNS = (
    *("id", "job_id", "fire_time", "trigger", "state", "reason", "task", "queue", "priority", "attempt"),
    *("max_attempts", "worker", "available_at", "created_at", "queued_at", "started_at", "finished_at", "run_key"),
    *("replay_of", "fingerprint", "skipped_count", "skipped_until"),
)
_MORE = (
    *("args", "kwargs", "result", "checkpoint", "progress", "awaited_until"),
    *("cancel_requested_at", "handled_at", "handled_note", "request_id"),
)


def in_list(execution: Execution) -> dict[str, Any]:
    """In a line, with its job loaded."""
    return {
        **{name: getattr(execution, name) for name in _COLUMNS},
        "job": execution.job.key,
        "error": stored_in_a_line(execution.error),
    }


def in_full(execution: Execution, attempts: list[Attempt], *, now: datetime) -> dict[str, Any]:
    return {
        **in_list(execution),
        **{name: getattr(execution, name) for name in _MORE},
        "error": execution.error,
        "why": why.in_words(execution, now=now),
        "attempts": [_attempt(attempt) for attempt in attempts],
        "timeline": [{"at": each.at, "what": each.what} for each in timeline.moments(execution, attempts)],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    names = ("number", "outcome", "worker", "started_at", "finished_at", "error", "response")
    return {name: getattr(attempt, name) for name in (*names, "refused_at", "refused_outcome")}


# ── For the documentation ────────────────────────────────────────────────────────────────────────────────────────


class ExecutionAnswer(serializers.Serializer[Any]):
    id = serializers.UUIDField(help_text="Also the Celery task id, and the idempotency key of its handler.")
    job = serializers.CharField(help_text="The key of its job.")
    job_id = serializers.IntegerField()
    fire_time = serializers.DateTimeField()
    trigger = serializers.ChoiceField(choices=[str(trigger) for trigger in Trigger])
    state = serializers.ChoiceField(choices=[str(state) for state in State])
    reason = serializers.CharField(allow_blank=True)
    task = serializers.CharField()
    queue = serializers.CharField()
    priority = serializers.IntegerField()
    attempt = serializers.IntegerField()
    max_attempts = serializers.IntegerField()
    worker = serializers.CharField(allow_blank=True)
    available_at = serializers.DateTimeField(help_text="Published no earlier than this.")
    created_at = serializers.DateTimeField()
    queued_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    run_key = serializers.CharField(allow_blank=True)
    replay_of = serializers.UUIDField(allow_null=True)
    fingerprint = serializers.CharField(allow_blank=True)
    skipped_count = serializers.IntegerField(allow_null=True, help_text="How many fires a skipped stretch stands for.")
    skipped_until = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField(allow_blank=True, help_text="In a line; in full where one execution is read.")


class AttemptAnswer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    outcome = serializers.ChoiceField(choices=[str(outcome) for outcome in Outcome])
    worker = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField()
    error = serializers.CharField(allow_blank=True)
    response = serializers.JSONField(
        allow_null=True, help_text="Of a callback: status, seconds, headers and the beginning of the body."
    )
    refused_at = serializers.DateTimeField(allow_null=True)
    refused_outcome = serializers.CharField(allow_blank=True)


class MomentAnswer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    what = serializers.CharField()


class FullExecutionAnswer(ExecutionAnswer):
    args = serializers.ListField()
    kwargs = serializers.DictField()
    result = serializers.JSONField(allow_null=True)
    checkpoint = serializers.JSONField(allow_null=True)
    progress = serializers.JSONField(allow_null=True)
    awaited_until = serializers.DateTimeField(allow_null=True, help_text="Its receiver tells the end, by this moment.")
    cancel_requested_at = serializers.DateTimeField(allow_null=True)
    handled_at = serializers.DateTimeField(allow_null=True)
    handled_note = serializers.CharField(allow_blank=True)
    request_id = serializers.CharField(allow_blank=True, help_text="Of the request that asked for it: X-Request-Id.")
    why = serializers.CharField(help_text="Why it is where it is, in a sentence.")
    attempts = AttemptAnswer(many=True)
    timeline = MomentAnswer(many=True)


class ExecutionPage(serializers.Serializer[Any]):
    items = ExecutionAnswer(many=True)
    next = serializers.CharField(
        allow_null=True,
        help_text="The address of the next page; null: this is the last. Where little matches, a page may hold few "
        "items or none and still have a next one.",
    )
