"""The worker task that sends a job's request: read the target, send, judge the answer."""

from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.db import connection

from callbacks import completions, hosts, verdicts
from callbacks.hosts import NotNow
from callbacks.refusals import AnsweredLater, AnsweredNo, Forbidden, GaveUp, Unanswered
from callbacks.requests import request_of
from callbacks.sending import Answer, send
from callbacks.verdicts import Verdict, verdict
from executions.clock import Clock
from executions.messages import Delivery
from executions.models import Execution
from executions.outcomes import Wish
from jobs import definitions, kept_secrets, vault
from jobs.http_target import HTTP_TASK, HttpTarget
from jobs.kept_secrets import Material
from jobs.models import Job, JobState
from jobs.refusals import Refused
from jobs.targets import rules
from jobs.web_address import Unfit, WebAddress, parsed
from workers import context
from workers.context import Context
from workers.patience import SHORT_SECONDS, reaching_database
from workers.task import TrackedTask

_clock = Clock()


class CallbackTask(TrackedTask):
    abstract = True

    def admission(self, delivery: Delivery) -> AbstractContextManager[NotNow | None]:
        """A place at the host. What cannot be read finds out in the call."""
        job = _job_of(delivery.execution_id)
        if job is None or not job.http:
            return nullcontext()
        try:
            origin = parsed(HttpTarget.stored(job.http).url, rules()).origin
        except (Unfit, TypeError, ValueError):
            return nullcontext()
        seconds = _seconds(job, HttpTarget.stored(job.http))
        return hosts.place_at(origin, delivery.execution_id, delivery.attempt, seconds=seconds)


@shared_task(name=HTTP_TASK, base=CallbackTask, typing=False)
def http(**payload: Any) -> Any:
    """Send the request of this job, with the payload as its body."""
    run = context.current()
    job = _job_of(run.execution_id) if run.execution_id else None
    if job is None or not job.http:
        raise GaveUp("there is no request to send: this task is run by jobs with an http target")
    try:
        return _made(run, job, HttpTarget.stored(job.http), payload)
    except GaveUp:
        run.wish = Wish(gives_up=True)
        raise


def _made(run: Context, job: Job, target: HttpTarget, payload: dict[str, Any]) -> Any:
    url, material, began = _address(target), _material(target), _clock.now()
    completion_url = completions.url_of(run) if target.is_asynchronous else ""
    request = request_of(target, url, payload, run, material, completion_url=completion_url, now=began)
    asked = f"{target.method} {url.shown}"
    _give_connection_back()
    try:
        answer = send(request, rules(), seconds=_seconds(job, target), ca_file=settings.ONBEAT_CALLBACKS_CA_FILE)
    except Unanswered as error:
        hosts.went_wrong(url.origin, str(error), now=_clock.now())
        raise Unanswered(f"{asked}: {error}") from None
    except Forbidden as error:
        raise Forbidden(f"{asked}: {error}") from None
    run.response = verdicts.kept(answer, asked=asked, secrets=material.all_values())
    return _judged(run, job, target, url, answer, asked)


def _judged(run: Context, job: Job, target: HttpTarget, url: WebAddress, answer: Answer, asked: str) -> Any:
    said = f"{asked} answered {verdicts.in_words(answer.status)} after {answer.seconds:.2f} s"
    now, judged = _clock.now(), verdict(answer.status, target)
    if answer.status >= 500:
        hosts.went_wrong(url.origin, f"it answered {verdicts.in_words(answer.status)}", now=now)
    else:
        hosts.went_well(url.origin, now=now)
    match judged:
        case Verdict.SUCCEEDED:
            return {"status": answer.status}
        case Verdict.ACCEPTED:
            assert run.claim is not None
            seconds = job.timeout_seconds or settings.ONBEAT_WORKERS_TIMEOUT_SECONDS
            run.awaited_until = run.claim.started_at + timedelta(seconds=seconds)
            return None
        case Verdict.TRY_AGAIN:
            most = timedelta(seconds=settings.ONBEAT_CALLBACKS_RETRY_AFTER_SECONDS)
            run.no_sooner_than = verdicts.retry_after(answer.headers, now=now, most=most)
            raise AnsweredLater(said)
        case Verdict.GIVE_UP:
            raise AnsweredNo(said)
        case Verdict.GONE:
            _pause(job, f"{asked} answered 410 Gone")
            raise AnsweredNo(f"{said}; the job is paused")


def _seconds(job: Job, target: HttpTarget) -> float:
    """Where no time limit of the job stops a worker's thread, this does."""
    return min(target.timeout_seconds, job.timeout_seconds or target.timeout_seconds)


def _give_connection_back() -> None:
    """Whoever waits for a host needs no connection to the database meanwhile."""
    if not connection.in_atomic_block:
        connection.close()


def _pause(job: Job, reason: str) -> None:
    """The receiver wants no more of these. A job that is over, or paused already, stays as it is."""
    if job.state == JobState.ACTIVE:
        with suppress(Refused):
            definitions.pause(job, reason=reason, through="worker")


def _address(target: HttpTarget) -> WebAddress:
    """Looked at again: a setting may be stricter by now, and a row may have been changed behind our back."""
    try:
        target.check(rules())
        return parsed(target.url, rules())
    except (Refused, Unfit) as error:
        raise Forbidden(str(error)) from None


def _material(target: HttpTarget) -> Material:
    try:
        return reaching_database(lambda: kept_secrets.material(target, now=_clock.now()), SHORT_SECONDS)
    except (LookupError, vault.CannotOpen) as error:
        raise GaveUp(f"a secret of the job cannot be used: {error}") from None


def _job_of(execution_id: UUID) -> Job | None:
    """As it is now: where a request goes is how to run, and what it carries is what to run."""
    ids = Execution.objects.with_id(execution_id).values("job_id")
    return reaching_database(Job.objects.filter(pk__in=ids).first, SHORT_SECONDS)
