"""How a receiver tells the end of what it accepted: by a URL that is signed, for one attempt.

Owns the signature and the words. Invariant: whoever has the URL of an attempt can tell how that attempt goes, and can
do nothing else; what is told of an attempt that is over changes nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, Signer

from executions import events, lifecycle
from executions.outcomes import Finish, Wish
from executions.storable import storable_result, storable_text
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
    most = settings.ONBEAT_EXECUTIONS_RESULT_BYTES
    match word.told:
        case Told.PROGRESS:
            note = storable_text(word.note, NOTE_CHARACTERS)
            said = storable_result({"done": word.done, "total": word.total, "note": note}, limit_bytes=most)
            return Finish.AWAITED if lifecycle.progress(claim, said=said) else Finish.REFUSED
        case Told.SUCCEEDED:
            finish = lifecycle.succeed(claim, result=storable_result(word.result, limit_bytes=most), now=now)
        case Told.FAILED:
            error = f"ToldToFail: {storable_text(word.error, ERROR_CHARACTERS) or 'the receiver gave no reason'}"
            wish = Wish(gives_up=True) if word.is_final else None
            finish = lifecycle.fail(claim, error=error, kinds=("ToldToFail", "CallbackFailed"), wish=wish, now=now)
    events.emit("its end was told", execution=execution_id, attempt=attempt, told=word.told, then=finish)
    return finish
