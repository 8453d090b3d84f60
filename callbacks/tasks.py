"""The worker task that sends a job's request: admit it, send it, judge the answer.

Invariant: what is needed of the database is read before the attempt is claimed. From then on the answer alone decides;
whether the database can be reached meanwhile changes nothing, and no connection to it is held while a host is slow.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.db import Error, connection

from callbacks import completions, hosts, redaction, verdicts
from callbacks.hosts import NotNow
from callbacks.refusals import AnsweredLater, AnsweredNo, Forbidden, GaveUp, Unanswered
from callbacks.requests import request_of
from callbacks.sending import Answer, send
from callbacks.verdicts import Verdict, verdict
from executions import database_line, events
from executions.clock import Clock
from executions.messages import Delivery
from executions.models import Execution
from executions.outcomes import Wish
from executions.storable import in_a_line
from jobs import definitions, kept_secrets, vault
from jobs.http_target import HTTP_TASK, HttpTarget
from jobs.kept_secrets import Material
from jobs.models import Job, JobState
from jobs.refusals import Refused
from jobs.targets import rules
from jobs.web_address import Unfit, WebAddress, parsed
from workers import context
from workers.context import Context
from workers.patience import LONG_SECONDS, SHORT_SECONDS, Unreachable, reaching_database
from workers.task import TrackedTask

# Of the job's time limit, so that the call ends before its worker is stopped, and its host hears of it.
_SHARE_OF_LIMIT = 0.95
_NO_REQUEST = "there is no request to send: this task is run by jobs with an http target"

_clock = Clock()


@dataclass(frozen=True)
class Call:
    """A request that may be sent."""

    job: Job
    target: HttpTarget
    url: WebAddress
    material: Material = field(repr=False)
    payload: Any = field(default=None, repr=False)  # in place of the execution's

    @property
    def limit_seconds(self) -> float:
        limit: float = self.job.timeout_seconds or settings.ONBEAT_WORKERS_TIMEOUT_SECONDS
        return limit

    @property
    def seconds(self) -> float:
        return min(self.target.timeout_seconds, self.limit_seconds * _SHARE_OF_LIMIT)


# What this thread was admitted to: a call, or why it can never be.
_admitted: ContextVar[Call | GaveUp] = ContextVar("admitted")


class CallbackTask(TrackedTask):
    abstract = True

    @contextmanager
    def admission(self, delivery: Delivery) -> Iterator[NotNow | None]:
        call = reaching_database(lambda: self.call_of(delivery.execution_id), SHORT_SECONDS)
        if isinstance(call, NotNow):
            yield call
            return
        token = _admitted.set(call)
        try:
            if isinstance(call, GaveUp):
                yield None  # its attempt tells why
            else:
                place = hosts.place_at(call.url.origin, delivery.execution_id, delivery.attempt, seconds=call.seconds)
                with place as not_now:
                    yield not_now
        finally:
            _admitted.reset(token)

    def call_of(self, execution_id: UUID) -> Call | GaveUp | NotNow:
        """What is to be sent for an execution; or why never, or why not now."""
        return _call_of(execution_id)


def _call_of(execution_id: UUID) -> Call | GaveUp:
    """As the job is now: where a request goes is how to run, and what it carries is what to run."""
    job = Job.objects.filter(pk__in=Execution.objects.with_id(execution_id).values("job_id")).first()
    if job is None or not job.http:
        return GaveUp(_NO_REQUEST)
    try:
        # Looked at again: a setting may be stricter by now, and a row may have been changed behind our back.
        target = HttpTarget.stored(job.http)
        target.check(rules())
        url = parsed(target.url, rules())
        return Call(job, target, url, kept_secrets.material(target, url.host, now=_clock.now()))
    except (LookupError, vault.CannotOpen) as error:
        return GaveUp(f"a secret of the job cannot be used: {error.args[0]}")
    except (Refused, Unfit, TypeError, ValueError) as error:
        return Forbidden(str(error))


@shared_task(name=HTTP_TASK, base=CallbackTask, typing=False)
def http(**payload: Any) -> Any:
    """Send the request of this job, with the payload as its body."""
    return send_admitted(payload)


def send_admitted(payload: dict[str, Any]) -> Any:
    """What this thread was admitted to, sent and judged."""
    run = context.current()
    try:
        call = _admitted.get(GaveUp(_NO_REQUEST))
        if isinstance(call, GaveUp):
            raise call
        return _made(run, call, payload if call.payload is None else call.payload)
    except GaveUp:
        run.wish = Wish(gives_up=True)
        raise


def _made(run: Context, call: Call, payload: dict[str, Any]) -> Any:
    assert run.claim is not None
    began, material = run.claim.started_at, call.material
    completion_url = completions.url_of(run) if call.target.is_asynchronous else ""
    request = request_of(call.target, call.url, payload, run, material, completion_url=completion_url, now=began)
    _give_connection_back()
    sent_at = time.monotonic()
    try:
        answer = send(request, rules(), seconds=call.seconds, ca_file=settings.ONBEAT_CALLBACKS_CA_FILE)
    except Unanswered as error:
        _note(call, str(error), began=began, seconds=time.monotonic() - sent_at)
        raise Unanswered(f"{call.target.shown}: {error}") from None
    except Forbidden as error:
        raise Forbidden(f"{call.target.shown}: {error}") from None
    redactor = redaction.of_request(
        signing_keys=material.signing_keys,
        headers=material.headers.values(),
        completion_url=completion_url,
        others=material.others,
    )
    run.response = verdicts.kept(answer, asked=call.target.shown, redactor=redactor)
    return _judged(run, call, answer, began=began)


def _judged(run: Context, call: Call, answer: Answer, *, began: datetime) -> Any:
    status, judged = verdicts.in_words(answer.status), verdict(answer.status, call.target)
    said = f"{call.target.shown} answered {status} after {answer.seconds:.2f} s"
    if answer.status >= 500:
        _note(call, f"it answered {status}", began=began, seconds=answer.seconds)
    elif judged is not Verdict.TRY_AGAIN:  # who asks for patience is neither well nor down
        _note(call, "", began=began, seconds=answer.seconds)
    match judged:
        case Verdict.SUCCEEDED:
            return {"status": answer.status}
        case Verdict.ACCEPTED:
            run.awaited_until = began + timedelta(seconds=call.limit_seconds)
            return None
        case Verdict.TRY_AGAIN:
            most = timedelta(seconds=settings.ONBEAT_CALLBACKS_RETRY_AFTER_SECONDS)
            now = began + timedelta(seconds=answer.seconds)
            run.no_sooner_than = verdicts.retry_after(answer.headers, now=now, most=most)
            raise AnsweredLater(said)
        case Verdict.GIVE_UP:
            raise AnsweredNo(said)
        case Verdict.GONE:
            _pause(call.job, f"{call.target.shown} answered 410 Gone")
            raise AnsweredNo(f"{said}; the job is paused")


def _note(call: Call, error: str, *, began: datetime, seconds: float) -> None:
    """How the host did. If the database is away nobody hears of it, and the answer counts all the same."""
    now = began + timedelta(seconds=seconds)
    try:
        with database_line.hurried():
            if error:
                hosts.went_wrong(call.url.origin, error, began=began, now=now)
            else:
                hosts.went_well(call.url.origin, seconds=seconds, now=now)
    except Error as problem:
        _give_connection_back()
        events.warn("nobody noted how a host did", host=call.url.origin, error=in_a_line(problem))


def _pause(job: Job, reason: str) -> None:
    """The receiver wants no more of these. A job that is over, paused already or changed since stays as it is."""
    if job.state == JobState.ACTIVE:
        with suppress(Refused, Unreachable):
            reaching_database(
                lambda: definitions.pause(job, version=job.version, reason=reason, through="worker"), LONG_SECONDS
            )


def _give_connection_back() -> None:
    """Whoever waits for a host needs no connection to the database meanwhile."""
    if not connection.in_atomic_block:
        connection.close()
