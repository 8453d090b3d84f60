"""Pause and resume a job."""

from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.jobs import deeds
from api.jobs.answers import JobAnswer, job_answer
from api.jobs.named import held, job_named, version_wanted
from api.jobs.views import BY_NAME, TAG
from api.schema import IF_MATCH, documented
from api.shapes import Body, Moment, NoBody, Text
from api.views import ApiView, changes


class PauseBody(Body):
    reason = Text(required=False, max_length=200, help_text="Why: whoever asks later will see it.")
    until = Moment(required=False, allow_null=True, help_text="It resumes by itself then.")


class PauseView(ApiView):
    needs = {"POST": Role.OPERATOR}

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
        said = {"reason": body.get("reason", ""), "until": body.get("until"), "version": version_wanted(request)}
        return job_answer(deeds.pause(found, **said, **self.signature))


class ResumeView(ApiView):
    needs = {"POST": Role.OPERATOR}

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
        return job_answer(deeds.resume(found, version=version, **self.signature))
