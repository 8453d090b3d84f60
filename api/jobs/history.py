"""The versions of a job, and what differs between two of them."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api import pages
from api.jobs import bodies
from api.jobs.named import job_named
from api.jobs.views import BY_NAME, TAG
from api.pages import PageQuery
from api.problems import not_there
from api.schema import documented, in_path
from api.shapes import Query, WholeInQuery
from api.views import ApiView
from jobs.differences import differences
from jobs.models import Change, Job, JobVersion

_LARGEST = 2**31 - 1
NUMBER = in_path("number", "The version.", example=1, kind=OpenApiTypes.INT32)


class DiffQuery(Query):
    since = WholeInQuery(min_value=1, max_value=_LARGEST, help_text="The version to begin from.")
    until = WholeInQuery(
        required=False, min_value=1, max_value=_LARGEST, help_text="The version to end at; the current one if left out."
    )


class VersionAnswer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    change = serializers.ChoiceField(choices=[change.value for change in Change])
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField(allow_blank=True)
    through = serializers.CharField()
    note = serializers.CharField(allow_blank=True)


class VersionWithDefinition(VersionAnswer):
    definition = serializers.DictField(help_text="The job as it was then, as a body: it can be sent back.")


class VersionPage(serializers.Serializer[Any]):
    items = VersionAnswer(many=True)
    next = serializers.CharField(allow_null=True)


class DifferenceAnswer(serializers.Serializer[Any]):
    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class DiffAnswer(serializers.Serializer[Any]):
    since = serializers.IntegerField()
    until = serializers.IntegerField()
    differences = DifferenceAnswer(many=True)


class VersionsView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "jobs_versions",
        "The history of a job",
        tag=TAG,
        query=PageQuery,
        answers={200: VersionPage},
        also=[404],
        parameters=[BY_NAME],
    )
    def get(self, request: Request, job: str) -> Response:
        query, found = PageQuery.read(request), job_named(job)
        rows = JobVersion.objects.filter(job=found).defer("definition")
        versions, cursor = pages.newest_first(rows, query, by="version")
        return pages.answer(request, [version_answer(version) for version in versions], cursor)


class VersionView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "jobs_version",
        "A job as it was",
        tag=TAG,
        answers={200: VersionWithDefinition},
        also=[404],
        parameters=[BY_NAME, NUMBER],
    )
    def get(self, _request: Request, job: str, number: int) -> Response:
        version = version_of(job_named(job), number)
        return Response({**version_answer(version), "definition": bodies.of_version(version.definition)})


class DiffView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented(
        "jobs_diff",
        "What differs between two versions",
        tag=TAG,
        query=DiffQuery,
        answers={200: DiffAnswer},
        also=[404],
        parameters=[BY_NAME],
    )
    def get(self, request: Request, job: str) -> Response:
        query, found = DiffQuery.read(request), job_named(job)
        before, after = (version_of(found, number) for number in (query["since"], query.get("until", found.version)))
        found_differences = differences(*(bodies.of_version(each.definition) for each in (before, after)))
        return Response(
            {
                "since": before.version,
                "until": after.version,
                "differences": [
                    {"field": each.field, "before": each.before, "after": each.after} for each in found_differences
                ],
            }
        )


def version_of(job: Job, number: int) -> JobVersion:
    found = JobVersion.objects.filter(job=job, version=number).first() if number <= _LARGEST else None
    if found is None:
        raise not_there(f"The job {job.key!r} has no version {number}; it is at version {job.version}.")
    return found


def version_answer(version: JobVersion) -> dict[str, Any]:
    names = ("version", "change", "changed_at", "changed_by", "through", "note")
    return {name: getattr(version, name) for name in names}
