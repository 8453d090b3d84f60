"""Jobs: list, create, read, replace, patch, archive; by id, and by key for those who keep definitions elsewhere."""

from http import HTTPStatus
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api import pages
from api.jobs import bodies, deeds, listing
from api.jobs.answers import JobAnswer, JobPage, answered, job_answer
from api.jobs.bodies import DefinitionBody, JobBody, PatchBody
from api.jobs.examples import AT_ANOTHER_TIME, CALLBACK, DEFINITION, ONE_OFF, RECURRING
from api.jobs.listing import JobQuery
from api.jobs.named import anchor_of, check_state, held, job_named, schedule_of, version_wanted
from api.problems import Problem, refuse
from api.schema import IF_MATCH, creating, documented, in_path
from api.shapes import Query, Text, is_text
from api.views import ApiView, changes, creates
from executions.clock import database_now
from jobs.finding import find
from jobs.models import Job, JobState
from jobs.refusals import KeyTaken

TAG = "Jobs"
BY_KEY = in_path("key", "The key of the job.", example=RECURRING["key"])
BY_NAME = in_path("job", "The id of the job, or its key if that has no slash.", example=RECURRING["key"])


class PutBody(DefinitionBody):
    key = Text(required=False, help_text="May be named, and cannot be changed.")


class ArchiveQuery(Query):
    reason = Text(required=False, help_text="Why; kept in its history.")


class JobsView(ApiView):
    needs = {"GET": Role.VIEWER, "POST": Role.EDITOR}

    @documented("jobs_list", "List jobs", tag=TAG, query=JobQuery, answers={200: JobPage})
    def get(self, request: Request) -> Response:
        jobs, cursor = listing.page(JobQuery.read(request))
        return pages.answer(request, answered(jobs), cursor)

    @creating(
        "jobs_create",
        "Create a job",
        tag=TAG,
        body=JobBody,
        answers={201: JobAnswer},
        examples=[("A recurring job", RECURRING), ("One reminder", ONE_OFF), ("A request to a URL", CALLBACK)],
    )
    @creates
    def post(self, request: Request) -> Response:
        job = created(self, request, JobBody.read(request))
        return job_answer(job, status=HTTPStatus.CREATED, headers={"Location": f"{request.path}/{job.pk}"})


class JobView(ApiView):
    needs = {"GET": Role.VIEWER, "PUT": Role.EDITOR, "PATCH": Role.EDITOR, "DELETE": Role.EDITOR}

    @documented("jobs_read", "Read a job", tag=TAG, answers={200: JobAnswer}, also=[404], parameters=[BY_NAME])
    def get(self, _request: Request, job: str) -> Response:
        return job_answer(job_named(job))

    @documented(
        "jobs_replace",
        "Replace a job's definition",
        tag=TAG,
        body=PutBody,
        answers={200: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_NAME, IF_MATCH],
        description="What is left out becomes its default. PATCH changes only what it names.",
        examples=[("A recurring job", DEFINITION)],
    )
    @changes
    def put(self, request: Request, job: str) -> Response:
        body = PutBody.read(request)
        return self._replace(request, held(job_named(job)), body)

    @documented(
        "jobs_change",
        "Change some of a job's definition",
        tag=TAG,
        body=PatchBody,
        answers={200: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_NAME, IF_MATCH],
        description="Of schedule and retry what is named is changed; everything else that is named is replaced whole.",
        examples=[("At another time", AT_ANOTHER_TIME)],
    )
    @changes
    def patch(self, request: Request, job: str) -> Response:
        return self._patch(request, held(job_named(job)))

    @documented(
        "jobs_archive",
        "Archive a job",
        tag=TAG,
        query=ArchiveQuery,
        answers={200: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_NAME, IF_MATCH],
        description="It fires no more and its key is free again; its history stays. Runs that were asked for go on.",
    )
    @changes
    def delete(self, request: Request, job: str) -> Response:
        return self._archive(request, held(job_named(job)))

    def _patch(self, request: Request, job: Job) -> Response:
        return self._replace(request, job, bodies.patched(job, schedule_of(job), request.data))

    def _archive(self, request: Request, job: Job) -> Response:
        reason = ArchiveQuery.read(request).get("reason", "")
        return job_answer(deeds.archive(job, reason=reason, version=version_wanted(request), **self.signature))

    def _replace(self, request: Request, job: Job, body: dict[str, Any]) -> Response:
        version = version_wanted(request)
        check_state(request.data, job.state)
        now = database_now()
        said = bodies.said({"key": job.key, **body}, now=now, anchor=anchor_of(schedule_of(job)))
        return job_answer(deeds.replace(job, said, version=version, now=now, **self.signature))


def created(view: ApiView, request: Request, body: dict[str, Any]) -> Job:
    """A new job, told in the audit trail."""
    check_state(request.data, JobState.ACTIVE)
    now = database_now()
    return deeds.create(bodies.said(body, now=now), now=now, **view.signature)


class JobByKeyView(JobView):
    """The same by key, which may hold slashes. PUT creates the job if there is none."""

    @documented(
        "jobs_read_by_key", "Read a job by its key", tag=TAG, answers={200: JobAnswer}, also=[404], parameters=[BY_KEY]
    )
    def get(self, _request: Request, key: str) -> Response:
        return job_answer(find(key))

    @documented(
        "jobs_put_by_key",
        "Create or replace a job by its key",
        tag=TAG,
        body=PutBody,
        answers={200: JobAnswer, 201: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_KEY, IF_MATCH],
        description="The same request leaves the same job, and a job that says it already keeps its version. "
        "`If-None-Match: *` creates only.",
        examples=[("A recurring job", DEFINITION)],
    )
    @changes
    def put(self, request: Request, key: str) -> Response:
        body = PutBody.read(request)
        if body.setdefault("key", key) != key:
            refuse("key", f"The address names the job {key!r}; leave the key out of the body, or say the same.")
        # Not every database can be asked for a NUL; below, such a key is refused with its sentence.
        there = Job.objects.open().filter(key=key).first() if is_text(key) else None
        if there is None:
            if "If-Match" in request.headers:
                version_wanted(request)  # one that cannot be read is told as such
                raise Problem(
                    HTTPStatus.PRECONDITION_FAILED, f"There is no job {key!r}; leave If-Match out to create it."
                )
            try:
                return job_answer(created(self, request, body), status=HTTPStatus.CREATED)
            except KeyTaken:
                there = find(key)  # somebody else was faster by a moment
        if request.headers.get("If-None-Match", "").strip() == "*":
            raise Problem(HTTPStatus.PRECONDITION_FAILED, f"There is a job {key!r} already, and it was to be new.")
        return self._replace(request, held(there), body)

    @documented(
        "jobs_change_by_key",
        "Change some of a job's definition, by its key",
        tag=TAG,
        body=PatchBody,
        answers={200: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_KEY, IF_MATCH],
        examples=[("At another time", AT_ANOTHER_TIME)],
    )
    @changes
    def patch(self, request: Request, key: str) -> Response:
        return self._patch(request, held(find(key)))

    @documented(
        "jobs_archive_by_key",
        "Archive a job by its key",
        tag=TAG,
        query=ArchiveQuery,
        answers={200: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_KEY, IF_MATCH],
    )
    @changes
    def delete(self, request: Request, key: str) -> Response:
        return self._archive(request, held(find(key)))
