"""How a receiver tells the end of what it accepted: by a URL that is signed, for one attempt.

Owns the signature and the words. Invariant: whoever has the URL of an attempt can tell how that attempt goes, and can
do nothing else; what is told of an attempt that is over changes nothing.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, Signer

from callbacks.redaction import Redactor, of_request
from executions import events, lifecycle
from executions.models import Execution
from executions.outcomes import Finish, Wish
from executions.storable import storable_result, storable_text
from jobs import kept_secrets
from jobs.http_target import HttpTarget
from jobs.kept_secrets import Material
from jobs.targets import rules
from jobs.vault import CannotOpen
from jobs.web_address import Unfit, parsed
from workers.context import NOTE_CHARACTERS, Context

PATH = "/api/v1/completions"
ERROR_CHARACTERS = 2000
_signer = Signer(salt="onbeat.completions", sep="/")


class Told(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PROGRESS = "progress"


@dataclass(frozen=True)
class Word:
    """What a receiver says."""

    told: Told
    result: Any = None
    error: str = ""
    is_final: bool = False  # of a failure: no further attempt
    done: float = 0
    total: float | None = None
    note: str = ""


def url_of(run: Context) -> str:
    assert run.execution_id is not None
    return settings.ONBEAT_CALLBACKS_URL + path_of(run.execution_id, run.attempt)


def path_of(execution_id: UUID, attempt: int) -> str:
    return f"{PATH}/{_signer.sign(f'{execution_id}/{attempt}')}"


def is_signed(execution_id: UUID, attempt: int, signature: str) -> bool:
    try:
        _signer.unsign(f"{execution_id}/{attempt}/{signature}")
    except BadSignature:
        return False
    return True


def tell(execution_id: UUID, attempt: int, word: Word, *, now: datetime) -> Finish:
    """What became of it. REFUSED: the attempt is over, or was never begun."""
    claim = lifecycle.claim_from_elsewhere(execution_id, attempt)
    if claim is None:
        return Finish.REFUSED
    most, redactor = settings.ONBEAT_EXECUTIONS_RESULT_BYTES, _redactor(execution_id, attempt, now=now)
    match word.told:
        case Told.PROGRESS:
            note = storable_text(redactor.text(word.note), NOTE_CHARACTERS)
            said = storable_result({"done": word.done, "total": word.total, "note": note}, limit_bytes=most)
            return Finish.AWAITED if lifecycle.progress(claim, said=said) else Finish.REFUSED
        case Told.SUCCEEDED:
            finish = lifecycle.succeed(
                claim, result=storable_result(redactor.value(word.result), limit_bytes=most), now=now
            )
        case Told.FAILED:
            reason = storable_text(redactor.text(word.error), ERROR_CHARACTERS)
            error = f"ToldToFail: {reason or 'the receiver gave no reason'}"
            wish = Wish(gives_up=True) if word.is_final else None
            finish = lifecycle.fail(claim, error=error, kinds=("ToldToFail", "CallbackFailed"), wish=wish, now=now)
    events.emit("its end was told", execution=execution_id, attempt=attempt, told=word.told, then=finish)
    return finish


def _redactor(execution_id: UUID, attempt: int, *, now: datetime) -> Redactor:
    """Against what the request carried: a receiver may tell it back."""
    http = Execution.objects.with_id(execution_id).values_list("job__http", flat=True).first()
    material = Material()
    if http:
        target = HttpTarget.stored(http)
        with suppress(LookupError, CannotOpen, Unfit):  # nothing could be sent with them either
            material = kept_secrets.material(target, parsed(target.url, rules()).host, now=now)
    return of_request(
        signing_keys=material.signing_keys,
        headers=material.headers.values(),
        completion_url=path_of(execution_id, attempt),
    )
