"""Receivers of notifications: who is told what. A URL or key that was given is answered to nobody."""

from typing import Any

from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_variables
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.notifications import deeds
from api.notifications.answers import in_full, in_short
from api.schema import creating, documented, in_path
from api.shapes import Body, ListOf, NoBody, OneOf, Secret, Text, Whole
from api.views import ApiView, changes, creates
from notifications import deliveries, receivers
from notifications.kinds import EVENTS, Kind, Template
from notifications.receivers import MOST_JOBS, MOST_LATE_SECONDS, MOST_PER_HOUR

TAG = "Notifications"
_NAME = in_path("name", "The name of the receiver.", example="unused")
_TEMPLATES = [str(template) for template in Template]
_EVENTS = [str(event) for event in EVENTS]


class ReceiverBody(Body):
    """Of one that is there, what is left out stays as it is."""

    template = OneOf(required=False, choices=_TEMPLATES, help_text="In which form it takes them; standard if new.")
    url = Secret(required=False, allow_blank=False, help_text="Sealed, and answered to nobody. PagerDuty has its own.")
    routing_key = Secret(required=False, allow_blank=False, help_text="PagerDuty's, of an Events API v2 integration.")
    secret = Text(required=False, allow_null=True, help_text="The name of the secret that it is signed with.")
    events = ListOf(child=OneOf(choices=_EVENTS), required=False, help_text="What it is told.")
    jobs = ListOf(
        child=Text(),
        required=False,
        max_length=MOST_JOBS,
        help_text="Keys of jobs, with * for any characters; all jobs if there is none.",
    )
    late_after = Whole(
        required=False, min_value=1, max_value=MOST_LATE_SECONDS, help_text="What has not begun so many seconds later."
    )
    most_per_hour = Whole(
        required=False, min_value=1, max_value=MOST_PER_HOUR, help_text="What is above is told in the next."
    )


class DeliveryAnswer(serializers.Serializer[Any]):
    event = serializers.ChoiceField(choices=[str(kind) for kind in Kind])
    job = serializers.CharField(allow_null=True)
    title = serializers.CharField()
    made_at = serializers.DateTimeField()
    execution = serializers.UUIDField(allow_null=True, help_text="That delivers it.")
    state = serializers.CharField(allow_null=True, help_text="Of that execution; null: it is past its days.")


class ReceiverAnswer(serializers.Serializer[Any]):
    name = serializers.CharField()
    template = serializers.ChoiceField(choices=_TEMPLATES)
    to = serializers.CharField(help_text="Scheme and host of its URL.")
    events = serializers.ListField(child=serializers.ChoiceField(choices=_EVENTS))
    jobs = serializers.ListField(child=serializers.CharField(), help_text="All, if there is none.")
    late_after = serializers.IntegerField()
    most_per_hour = serializers.IntegerField()
    secret = serializers.CharField(allow_null=True)
    active = serializers.BooleanField(help_text="False: it is told nothing, for its job is paused or over.")
    job = serializers.CharField(help_text="Whose executions are the deliveries.")
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField(allow_blank=True)
    last = DeliveryAnswer(allow_null=True)


class ReceiverInFull(ReceiverAnswer):
    deliveries = DeliveryAnswer(many=True, help_text="The newest first.")


class ReceiverKept(ReceiverAnswer):
    key = serializers.CharField(required=False, help_text="The signing key that was made, this one time.")


class ReceiversAnswer(serializers.Serializer[Any]):
    receivers = ReceiverAnswer(many=True)


class TestSent(serializers.Serializer[Any]):
    execution = serializers.UUIDField(help_text="That delivers it.")


class ReceiverRemoved(serializers.Serializer[Any]):
    removed = serializers.CharField()


class ReceiversView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "notifications_list", "Receivers, and the last delivery of each", tag=TAG, answers={200: ReceiversAnswer}
    )
    def get(self, _request: Request) -> Response:
        found = receivers.listed()
        last = deliveries.latest_of_each(found)
        return Response({"receivers": [in_short(each, last.get(each.pk)) for each in found]})


class ReceiverView(ApiView):
    needs = {"GET": Role.VIEWER, "PUT": Role.ADMIN, "DELETE": Role.ADMIN}

    @documented(
        "notifications_show",
        "A receiver, and what it was told lately",
        tag=TAG,
        answers={200: ReceiverInFull},
        also=[404],
        parameters=[_NAME],
    )
    def get(self, _request: Request, name: str) -> Response:
        receiver = receivers.find(name)
        return Response(in_full(receiver, deliveries.latest(receiver)))

    @documented(
        "notifications_put",
        "Make a receiver, or change it",
        tag=TAG,
        body=ReceiverBody,
        answers={200: ReceiverKept, 201: ReceiverKept},
        also=[404],
        parameters=[_NAME],
        description="A new one is told what happens from then on. With the template standard and no secret of its own "
        "a signing key is made, and answered this once.",
        examples=[("Dead letters of some jobs", {"url": "https://example.com/hook", "jobs": ["billing.*"]})],
    )
    @method_decorator(sensitive_variables())
    @changes
    def put(self, request: Request, name: str) -> Response:
        fields = ReceiverBody.read(request)
        if "late_after" in fields:
            fields["late_after_seconds"] = fields.pop("late_after")
        made = deeds.put(name, **fields, **self.signature)
        said = in_short(receivers.find(made.receiver.name), None) | ({"key": made.key} if made.key else {})
        return Response(said, status=201 if made.is_new else 200)

    @documented(
        "notifications_remove",
        "Remove a receiver; what is on its way to it is cancelled",
        tag=TAG,
        answers={200: ReceiverRemoved},
        also=[404, 422],
        parameters=[_NAME],
    )
    @changes
    def delete(self, request: Request, name: str) -> Response:
        NoBody.read(request)
        deeds.remove(name, **self.signature)
        return Response({"removed": name})


class TestView(ApiView):
    needs = {"POST": Role.OPERATOR}

    @creating(
        "notifications_test",
        "Send a receiver a test, the way that all notifications go",
        tag=TAG,
        body=NoBody,
        answers={201: TestSent},
        also=[404],
        parameters=[_NAME],
    )
    @creates
    def post(self, request: Request, name: str) -> Response:
        NoBody.read(request)
        notice = deeds.send_test(name, **self.signature)
        return Response({"execution": notice.execution_id}, status=201)
