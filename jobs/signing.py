"""Signatures in the Standard Webhooks format (symmetric, `v1`). Pure: no Django.

Owns what is signed: the id, the time of sending and the body, byte for byte. A receiver that knows any one of the keys
can verify it, so keys can be replaced one after the other.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
_BYTES = 32
_FEWEST_BYTES, _MOST_BYTES = 24, 64


def new_key() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def key_bytes(text: str) -> bytes:
    """Raises ValueError for what is no key of the format."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("a signing key is base64, with whsec_ before it") from None
    if not _FEWEST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"a signing key must be {_FEWEST_BYTES} to {_MOST_BYTES} bytes long, not {len(key)}")
    return key


def signatures(message_id: str, timestamp: int, body: bytes, keys: Iterable[str]) -> str:
    """The value of `webhook-signature`: one signature for each key."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.digest(key_bytes(key), signed, hashlib.sha256) for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
