"""Sealing what must not be read in the database.

Owns the keys of the encryption: those of ONBEAT_CALLBACKS_SECRET_KEYS, of which the first seals and each one opens, and
last one that follows from SECRET_KEY, so that it works before anybody has set another. Invariant: what is opened is in
memory only, and named in no text of an error.
"""

import base64
import hashlib
import hmac
from functools import cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from jobs.refusals import InvalidSecret


class CannotOpen(Exception):
    """None of the keys opens it."""


@sensitive_variables()
def seal(text: str) -> str:
    if not settings.ONBEAT_CALLBACKS_SECRET_KEYS and not settings.SECRET_KEY_IS_KEPT:
        raise InvalidSecret(
            "value",
            "There is no key to seal secrets with; set ONBEAT_CALLBACKS_SECRET_KEYS or SECRET_KEY, the same for all "
            "processes, or start `./onbeat run` once, which makes one.",
        )
    return _box(*_keys()).encrypt(text.encode()).decode("ascii")


@sensitive_variables()
def opened(sealed: str) -> str:
    try:
        return _box(*_keys()).decrypt(sealed.encode("ascii")).decode()
    except InvalidToken:
        raise CannotOpen("it was sealed with another key; see ONBEAT_CALLBACKS_SECRET_KEYS") from None


def _keys() -> tuple[str, ...]:
    return (*settings.ONBEAT_CALLBACKS_SECRET_KEYS, settings.SECRET_KEY)


@cache
def _box(*keys: str) -> MultiFernet:
    return MultiFernet([Fernet(_derived(key)) for key in keys])


def _derived(key: str) -> bytes:
    """Of any long text the key that the format wants. The text is random, so that a fast function is enough."""
    return base64.urlsafe_b64encode(hmac.digest(b"onbeat.secrets.v1", key.encode(), hashlib.sha256))
