"""Pause and resume a job."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import what_changed
from access.roles import Role
from api.jobs.answers import JobAnswer, job_answer
from api.jobs.named import as_stored, held, job_named, subject_of, version_wanted
from api.jobs.views import BY_NAME, TAG
from api.schema import IF_MATCH, documented
from api.shapes import Body, Moment, NoBody, Text
from api.views import ApiView, changes
from jobs import definitions
from jobs.models import Job


class PauseBody(Body):
    reason = Text(required=False, max_length=200, help_text="Why: whoever asks later will see it.")
    until = Moment(required=False, allow_null=True, help_text="It resumes by itself then.")


class _PauseView(ApiView):
    needs = {"POST": Role.OPERATOR}

    def _record(self, action: str, job: Job, before: dict[str, Any], *, note: str = "") -> Response:
        old, new = what_changed(before, as_stored(job))
        if old != new:
            self.record(action, subject_of(job), before=old, after=new, note=note)
        return job_answer(job)


class PauseView(_PauseView):
    @documented(
        "jobs_pause",
        "Pause a job",
        tag=TAG,
        body=PauseBody,
        answers={200: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_NAME, IF_MATCH],
        description="It fires no more until it is resumed. Runs that were asked for and retries go on.",
        examples=[("For the weekend", {"reason": "the bank is closed"})],
    )
    @changes
    def post(self, request: Request, job: str) -> Response:
        body, found = PauseBody.read(request), held(job_named(job))
        reason, version = body.get("reason", ""), version_wanted(request)
        before = as_stored(found)
        paused = definitions.pause(found, reason=reason, until=body.get("until"), version=version, **self.signature)
        return self._record("job.pause", paused, before, note=reason)


class ResumeView(_PauseView):
    @documented(
        "jobs_resume",
        "Resume a job",
        tag=TAG,
        body=NoBody,
        answers={200: JobAnswer},
        also=[404, 409, 412],
        parameters=[BY_NAME, IF_MATCH],
        description="The fires of the pause become one row that says so; none of them runs.",
    )
    @changes
    def post(self, request: Request, job: str) -> Response:
        NoBody.read(request)
        found, version = held(job_named(job)), version_wanted(request)
        before = as_stored(found)
        return self._record("job.resume", definitions.resume(found, version=version, **self.signature), before)
