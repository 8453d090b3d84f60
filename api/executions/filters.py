"""Which executions are meant: as a query, and as a body for those who act on all that match."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from api.jobs.named import job_named
from api.pages import PageQuery
from api.shapes import Body, ListOf, ManyInQuery, Moment, OneOf, Text
from executions.finding import Sought
from executions.states import State, Trigger

_HELP = {
    "job": "The key of a job that is not over, or the id of any.",
    "queue": "As the job names it.",
    "worker": "The name of the worker that ran it last.",
    "fingerprint": "The same for errors that look alike.",
    "since": "Fire times from here on.",
    "until": "Fire times before this.",
}


class ExecutionQuery(PageQuery):
    job = serializers.CharField(required=False, help_text=_HELP["job"])
    state = ManyInQuery(State, required=False, help_text="Several with commas.")
    trigger = ManyInQuery(Trigger, required=False, help_text="Several with commas.")
    queue = serializers.CharField(required=False, help_text=_HELP["queue"])
    worker = serializers.CharField(required=False, help_text=_HELP["worker"])
    fingerprint = serializers.CharField(required=False, help_text=_HELP["fingerprint"])
    since = Moment(required=False, help_text=_HELP["since"])
    until = Moment(required=False, help_text=_HELP["until"])


class FilterBody(Body):
    """A condition that is empty is refused: it would match everything."""

    job = Text(required=False, allow_blank=False, help_text=_HELP["job"])
    state = ListOf(child=OneOf(choices=[str(state) for state in State]), required=False, allow_empty=False)
    trigger = ListOf(child=OneOf(choices=[str(trigger) for trigger in Trigger]), required=False, allow_empty=False)
    queue = Text(required=False, allow_blank=False, help_text=_HELP["queue"])
    worker = Text(required=False, allow_blank=False, help_text=_HELP["worker"])
    fingerprint = Text(required=False, allow_blank=False, help_text=_HELP["fingerprint"])
    since = Moment(required=False, help_text=_HELP["since"])
    until = Moment(required=False, help_text=_HELP["until"])
    created_before = Moment(required=False, help_text="Stored before this: what comes meanwhile is left alone.")


def sought(said: Mapping[str, Any]) -> Sought:
    """What a query or a body asks for."""
    texts = {name: said[name] for name in ("queue", "worker", "fingerprint") if name in said}
    moments = {name: said[name] for name in ("since", "until", "created_before") if name in said}
    return Sought(
        job_id=job_named(said["job"]).pk if "job" in said else None,
        states=tuple(map(State, said.get("state", ()))),
        triggers=tuple(map(Trigger, said.get("trigger", ()))),
        **texts,
        **moments,
    )
