"""Make, find and revoke API keys.

Owns every change of a key. Invariants: the secret is known to whoever asked for the key and to nobody else: only its
SHA-256 is stored, and neither of them is told anywhere. What is revoked stays so. Making and revoking are told in the
audit trail, in the same transaction.

A secret reads `onbeat_<prefix>_<random>`: the prefix names the key in lists and logs, the rest has 256 bits. So much
randomness cannot be guessed, and needs no slow hash.

`now` is for tests; left out, it is the database's time.
"""

import hashlib
import hmac
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.db import transaction
from django.db.models import Q
from django.views.decorators.debug import sensitive_variables

from access import audit
from access.models import PREFIX_CHARACTERS, ApiKey
from access.roles import Role
from executions import events
from executions.clock import database_now
from executions.storable import storable_text
from jobs.refusals import Refused, check_text, shown

_RANDOM_CHARACTERS = 43  # of 62 letters and digits: 32 bytes
_SECRET = re.compile(rf"onbeat_([a-z0-9]{{{PREFIX_CHARACTERS}}})_[a-zA-Z0-9]{{{_RANDOM_CHARACTERS}}}")
USE_IS_NOTED_EVERY = timedelta(minutes=1)
_NAME_CHARACTERS = 100
_BY_CHARACTERS = 200


class InvalidKey(Refused):
    """The asked-for key cannot be, or there is none."""


class Denied(StrEnum):
    """Why a secret opens nothing, for whoever sent it."""

    UNKNOWN = "The API key is not known; check that it was copied whole."
    EXPIRED = "The API key expired; ask for a new one."
    REVOKED = "The API key was revoked; ask for a new one."


@dataclass(frozen=True)
class Made:
    """A new key, and its secret this one time."""

    key: ApiKey
    secret: str = field(repr=False)


@sensitive_variables("secret")  # not in reports of errors either
def make(
    *,
    name: str,
    role: Role | str,
    expires_at: datetime | None = None,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
) -> Made:
    """Store a new key. Whoever gets the secret should show it once and keep it nowhere."""
    check_text(InvalidKey, name=name, by=by, through=through)
    now, name = now or database_now(), name.strip()
    check(name=name, role=role, expires_at=expires_at, now=now)
    known_role = Role(role)
    prefix = _random(string.ascii_lowercase + string.digits, PREFIX_CHARACTERS)
    secret = f"onbeat_{prefix}_{_random(string.ascii_letters + string.digits, _RANDOM_CHARACTERS)}"
    by = storable_text(by, _BY_CHARACTERS)
    with transaction.atomic():
        key = ApiKey.objects.create(
            name=name,
            prefix=prefix,
            digest=_digest(secret),
            role=known_role,
            expires_at=expires_at,
            created_at=now,
            created_by=by,
        )
        audit.record(
            who=by,
            through=through,
            action="api_key.create",
            subject=f"api_key:{prefix}",
            after={"name": name, "role": known_role, "expires_at": expires_at},
            now=now,
        )
    events.emit("API key made", key=prefix, role=known_role, by=by, through=through)
    return Made(key, secret)


def check(*, name: str, role: Role | str, expires_at: datetime | None, now: datetime) -> None:
    """Refuse what `make` would refuse."""
    _check_name(name.strip())
    _check_role(role)
    _check_end(expires_at, now)


def _check_name(name: str) -> None:
    if not name:
        raise InvalidKey("name", "The key needs a name; say what it is for, such as 'billing server'.")
    if len(name) > _NAME_CHARACTERS:
        raise InvalidKey("name", f"The name {shown(name)} has {len(name)} characters; use at most {_NAME_CHARACTERS}.")
    if not name.isprintable():
        raise InvalidKey("name", f"The name {shown(name)} holds characters that cannot be shown; leave them out.")


def _check_role(role: Role | str) -> None:
    try:
        Role(role)
    except ValueError:
        raise InvalidKey("role", f"There is no role {shown(role)}; choose one of {', '.join(Role)}.") from None


def _check_end(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is None:
        return
    if not isinstance(expires_at, datetime) or expires_at.utcoffset() is None:
        raise InvalidKey("expires_at", f"expires_at must be a moment with a time zone, not {shown(expires_at)}.")
    try:
        expires_at.astimezone(UTC)
    except OverflowError:
        raise InvalidKey(
            "expires_at", f"The end {expires_at} cannot be kept; leave it out for a key without one."
        ) from None
    if expires_at <= now:
        raise InvalidKey("expires_at", f"The end {expires_at} is past; choose a later one, or none.")


def _random(alphabet: str, count: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(count))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


@sensitive_variables("secret")
def find(secret: str, *, now: datetime) -> ApiKey | Denied:
    """The valid key that this is the secret of, or why there is none. Only who knows the whole secret learns more."""
    form = _SECRET.fullmatch(secret)
    key = ApiKey.objects.filter(prefix=form[1]).first() if form else None
    if key is None or not hmac.compare_digest(key.digest, _digest(secret)):
        return Denied.UNKNOWN
    if key.revoked_at is not None:
        return Denied.REVOKED
    if key.expires_at is not None and key.expires_at <= now:
        return Denied.EXPIRED
    return key


def note_use(key: ApiKey, *, now: datetime) -> None:
    """Keep when the key was last used, to the minute. If somebody else holds its row, the next use is noted."""
    long_ago = now - USE_IS_NOTED_EVERY
    if key.last_used_at is not None and key.last_used_at > long_ago:
        return
    unnoted = ApiKey.objects.filter(Q(last_used_at=None) | Q(last_used_at__lte=long_ago), pk=key.pk)
    with transaction.atomic():
        # Not waiting: requests of one key would stand in line behind a slow one that noted its use.
        free = unnoted.select_for_update(skip_locked=True).values("pk")
        ApiKey.objects.filter(pk__in=free).update(last_used_at=now)


def revoke(prefix: str, *, by: str = "", through: str = "python", now: datetime | None = None) -> ApiKey:
    """End a key for good. One that was revoked before stays as it was."""
    check_text(InvalidKey, prefix=prefix, by=by, through=through)
    now = now or database_now()
    # Who found a secret where it should not be has it at hand, and not the prefix.
    form = _SECRET.fullmatch(prefix)
    prefix = form[1] if form else prefix
    by = storable_text(by, _BY_CHARACTERS)
    with transaction.atomic():
        is_revoked = prefix.isprintable() and ApiKey.objects.filter(prefix=prefix, revoked_at=None).update(
            revoked_at=now, revoked_by=by
        )
        key = ApiKey.objects.filter(prefix=prefix).first() if prefix.isprintable() else None
        if key is None:
            # Not the whole text: it could be a secret with a mistake in it.
            named = shown(prefix[: len("onbeat_") + PREFIX_CHARACTERS])
            raise InvalidKey(
                "prefix", f"There is no API key {named}; `./onbeat api_keys list --all` shows all of them."
            )
        if is_revoked:
            audit.record(
                who=by,
                through=through,
                action="api_key.revoke",
                subject=f"api_key:{prefix}",
                before={"revoked_at": None},
                after={"revoked_at": now},
                now=now,
            )
    if is_revoked:
        events.emit("API key revoked", key=prefix, by=by, through=through)
    return key
