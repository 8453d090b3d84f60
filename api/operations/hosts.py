"""The hosts that callbacks go to: how each is, and which of them rest."""

from datetime import datetime
from typing import Any

from django.db.models import Count, Q
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.operations.workers import TAG
from api.schema import documented
from api.views import ApiView
from callbacks.hosts import state_of
from callbacks.models import Host
from executions.clock import database_now

_MOST_HOSTS = 1000


class HostAnswer(serializers.Serializer[Any]):
    origin = serializers.CharField()
    state = serializers.ChoiceField(choices=["well", "failing", "resting", "tried"])
    calls = serializers.IntegerField(help_text="Under way at this moment.")
    failures = serializers.IntegerField(help_text="In a row.")
    rests_until = serializers.DateTimeField(allow_null=True, help_text="Nothing is sent to it before this.")
    last_error = serializers.CharField(allow_blank=True)
    used_at = serializers.DateTimeField()


class HostsAnswer(serializers.Serializer[Any]):
    hosts = HostAnswer(many=True)


class HostsView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "hosts_list",
        "Hosts that callbacks go to, those in trouble first",
        tag=TAG,
        answers={200: HostsAnswer},
        description="A host that failed several times in a row rests: what would call it waits and uses up no attempt.",
    )
    def get(self, _request: Request) -> Response:
        now = database_now()
        rows = Host.objects.annotate(under_way=Count("calls", filter=Q(calls__until__gt=now)))
        return Response({"hosts": [_answer(row, now) for row in rows.order_by("-failures", "origin")[:_MOST_HOSTS]]})


def _answer(host: Any, now: datetime) -> dict[str, Any]:
    names = ("origin", "failures", "rests_until", "last_error", "used_at")
    return {**{name: getattr(host, name) for name in names}, "state": state_of(host, now), "calls": host.under_way}
