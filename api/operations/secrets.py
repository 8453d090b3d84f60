"""Secrets by name: who keeps one never reads it again."""

from datetime import timedelta
from typing import Any

from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_variables
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.operations.workers import TAG
from api.schema import documented, in_path
from api.shapes import Body, ListOf, NoBody, OneOf, Secret, Text, Whole
from api.views import ApiView, changes
from executions.clock import database_now
from jobs import kept_secrets
from jobs.kept_secrets import OVERLAP_OF_KEYS
from jobs.models import SecretUse

_NAME = in_path("name", "The name of the secret.", example="unused")


class SecretBody(Body):
    use = OneOf(choices=[use.lower() for use in SecretUse], help_text="signing, or header for the value of one.")
    value = Secret(
        required=False,
        allow_blank=False,
        help_text="A signing key may be left out: then one is made, and answered this once.",
    )
    hosts = ListOf(
        child=Text(),
        required=False,
        help_text="It may be sent to these hosts alone, or sign for them; any if there is none. Left out: as it was.",
    )
    overlap = Whole(
        required=False,
        min_value=0,
        max_value=366 * 24 * 3600,
        help_text="For so many seconds the signing keys before it are used beside it; a day if left out.",
    )


class SecretAnswer(serializers.Serializer[Any]):
    name = serializers.CharField()
    use = serializers.ChoiceField(choices=[use.lower() for use in SecretUse])
    keys = serializers.IntegerField(help_text="How many signing keys are in use.")
    hosts = serializers.ListField(child=serializers.CharField(), help_text="Any, if there is none.")
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField(allow_blank=True)


class KeptAnswer(SecretAnswer):
    key = serializers.CharField(required=False, help_text="The signing key that was made, this one time.")


class SecretsAnswer(serializers.Serializer[Any]):
    secrets = SecretAnswer(many=True)


class RemovedAnswer(serializers.Serializer[Any]):
    removed = serializers.CharField()


class SecretsView(ApiView):
    needs = {"GET": Role.EDITOR}

    @documented("secrets_list", "Secrets by name, without their values", tag=TAG, answers={200: SecretsAnswer})
    def get(self, _request: Request) -> Response:
        rows = kept_secrets.listed(database_now())
        return Response({"secrets": [_answer(row) for row in rows]})


class SecretView(ApiView):
    needs = {"PUT": Role.ADMIN, "DELETE": Role.ADMIN}

    @documented(
        "secrets_put",
        "Keep a secret, or replace it",
        tag=TAG,
        body=SecretBody,
        answers={200: KeptAnswer, 201: KeptAnswer},
        also=[404],
        parameters=[_NAME],
        description="What is kept is sealed, and answered to nobody. A new signing key is used beside those before it "
        "for a while, so that receivers can change to it.",
        examples=[("A new signing key", {"use": "signing"})],
    )
    @method_decorator(sensitive_variables())
    @changes
    def put(self, request: Request, name: str) -> Response:
        body, now = SecretBody.read(request), database_now()
        use = SecretUse(body["use"].upper())
        overlap = timedelta(seconds=body["overlap"]) if "overlap" in body else OVERLAP_OF_KEYS
        kept = kept_secrets.put(
            name,
            use,
            value=body.get("value", ""),
            hosts=body.get("hosts"),
            overlap=overlap,
            by=self.caller.name,
            now=now,
        )
        action = "secret.create" if kept.is_new else "secret.replace"
        self.record(action, f"secret:{name}", after={"use": use.lower(), "hosts": kept.secret.hosts})
        said = _answer(kept_secrets.listed(now, name=name)[0]) | ({"key": kept.key} if kept.key else {})
        return Response(said, status=201 if kept.is_new else 200)

    @documented(
        "secrets_remove",
        "Remove a secret that no open job names",
        tag=TAG,
        answers={200: RemovedAnswer},
        also=[404, 409, 422],
        parameters=[_NAME],
    )
    @changes
    def delete(self, request: Request, name: str) -> Response:
        NoBody.read(request)
        kept_secrets.remove(name)
        self.record("secret.remove", f"secret:{name}")
        return Response({"removed": name})


def _answer(secret: Any) -> dict[str, Any]:
    names = ("name", "keys", "hosts", "created_at", "changed_at", "changed_by")
    return {**{name: getattr(secret, name) for name in names}, "use": secret.use.lower()}
