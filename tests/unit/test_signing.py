"""Signatures of the Standard Webhooks format, verified by the library of that standard."""

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from jobs import signing

BODY = b'{"amount":5}'


def headers(*keys: str, body: bytes = BODY) -> dict[str, str]:
    now = int(datetime.now(UTC).timestamp())
    signature = signing.signatures("id-1", now, body, keys)
    return {"webhook-id": "id-1", "webhook-timestamp": str(now), "webhook-signature": signature}


def test_the_library_of_the_standard_verifies_what_we_sign() -> None:
    key = signing.new_key()
    assert Webhook(key).verify(BODY.decode(), headers(key)) == {"amount": 5}


def test_each_of_several_keys_verifies_it() -> None:
    old, new = signing.new_key(), signing.new_key()
    for key in (old, new):
        Webhook(key).verify(BODY.decode(), headers(new, old))


def test_another_key_body_or_id_does_not() -> None:
    key = signing.new_key()
    with pytest.raises(WebhookVerificationError):
        Webhook(signing.new_key()).verify(BODY.decode(), headers(key))
    with pytest.raises(WebhookVerificationError):
        Webhook(key).verify('{"amount":6}', headers(key))
    with pytest.raises(WebhookVerificationError):
        Webhook(key).verify(BODY.decode(), {**headers(key), "webhook-id": "id-2"})


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_abc", "whsec_" + "A" * 28, "not base64!", "whsec_" + "A" * 100])
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="a signing key") as refused:
        signing.key_bytes(text)
    assert not text or text not in str(refused.value)
