"""Who is calling: to try a key, and to see what it may do."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.operations.workers import TAG
from api.schema import documented
from api.views import ApiView


class CallerAnswer(serializers.Serializer[Any]):
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=[str(role) for role in Role])
    may = serializers.ListField(child=serializers.CharField())


class CallerView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented("caller_read", "Who you are, and what you may do", tag=TAG, answers={200: CallerAnswer})
    def get(self, _request: Request) -> Response:
        role = self.caller.role
        assert role is not None  # whoever has none was refused
        return Response(
            {"name": self.caller.name, "role": role, "may": [each.may for each in Role if role.includes(each)]}
        )
