"""The audit trail: who did what, when, through what."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.models import AuditEntry
from access.roles import Role
from api import pages
from api.operations.workers import TAG
from api.pages import PageQuery
from api.schema import documented
from api.shapes import Moment
from api.views import ApiView

_NAMES = ("id", "at", "who", "through", "action", "subject", "before", "after", "note")


class AuditQuery(PageQuery):
    subject = serializers.CharField(required=False, help_text="Such as job:daily-invoice-gen.")
    who = serializers.CharField(required=False)
    action = serializers.CharField(required=False, help_text="Such as job.change.")
    since = Moment(required=False)
    until = Moment(required=False)


class AuditAnswer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    who = serializers.CharField(allow_blank=True)
    through = serializers.CharField()
    action = serializers.CharField()
    subject = serializers.CharField()
    before = serializers.JSONField(allow_null=True, help_text="What changed, as it was.")
    after = serializers.JSONField(allow_null=True, help_text="What changed, as it is.")
    note = serializers.CharField(allow_blank=True)


class AuditPage(serializers.Serializer[Any]):
    items = AuditAnswer(many=True)
    next = serializers.CharField(allow_null=True)


class AuditView(ApiView):
    needs = {"GET": Role.ADMIN}

    @documented("audit_list", "The audit trail, the latest first", tag=TAG, query=AuditQuery, answers={200: AuditPage})
    def get(self, request: Request) -> Response:
        query = AuditQuery.read(request)
        rows = AuditEntry.objects.filter(
            **{name: query[name] for name in ("subject", "who", "action") if name in query}
        )
        if "since" in query:
            rows = rows.filter(at__gte=query["since"])
        if "until" in query:
            rows = rows.filter(at__lt=query["until"])
        found, cursor = pages.newest_first(rows, query)
        return pages.answer(request, [{name: getattr(row, name) for name in _NAMES} for row in found], cursor)
