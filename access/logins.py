"""How often somebody may try to log in.

Owns the buckets of tries, in the database, so that all web processes count together and no Redis is needed. Invariant:
however many ask at once, no more tries are taken than a limit allows; and strangers use up nothing of the tries of
whoever logged in with this browser before, so that nobody can keep a person out.

A try is paid for before the password is looked at, else many at once would all be free; who knew it gets that back. No
row holds a name or an address: only what cannot be turned back, for people type passwords into the field of the name.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.core import signing
from django.db import connection, transaction
from django.db.models import F
from django.utils.crypto import salted_hmac

from access import gcra
from access.forgetting import BATCH_SIZE, forget
from access.gcra import Limit
from access.models import LoginBucket
from executions import events

KNOWN_FOR = timedelta(days=90)
_TOLD_EVERY = timedelta(minutes=1)
_SALT = "onbeat.logins"
_SECOND_US = 1_000_000

# What is counted together, and how much of it is taken.
LIMITS = {
    "user from this address": Limit.of(10, 600),
    "address": Limit.of(50, 600),
    "user": Limit.of(100, 3600),
    "known browser": Limit.of(10, 600),
}

# Rows that many want at once: made if they are not there, and locked either way, in one statement and one order.
_LOCK = """
INSERT INTO onbeat_login_bucket (name, full_at_us, told_at_us) VALUES {rows}
ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING name, full_at_us, told_at_us
"""


@dataclass(frozen=True)
class Try:
    """One that was taken. `buckets`: whose limit each pays to, by name."""

    buckets: Mapping[str, str]


@dataclass(frozen=True)
class Refused:
    """The password was not looked at."""

    wait_seconds: float


def begin(user: str, address: str, *, known: str, now: datetime) -> Try | Refused:
    """`known` is what `recognition` gave this browser when somebody last logged in with it; or nothing, or anything."""
    one = Try(_buckets(user, _network(address), _browser_of(user, known)))
    now_us = _us(now)
    told_before_us = now_us - _us_of(_TOLD_EVERY)
    with transaction.atomic():
        kept = _locked(one.buckets)
        taken = {
            name: gcra.take(LIMITS[limit], cost=1, full_at_us=kept[name][0], now_us=now_us)
            for name, limit in one.buckets.items()
        }
        refused = [name for name, (answer, _) in taken.items() if not answer.is_allowed]
        if not refused:
            for name, (_, full_at_us) in taken.items():
                LoginBucket.objects.filter(name=name).update(full_at_us=full_at_us)
            return one
        untold = [name for name in refused if kept[name][1] < told_before_us]
        LoginBucket.objects.filter(name__in=untold).update(told_at_us=now_us)
    for name in untold:
        _tell(one.buckets[name], user, address)
    return Refused(max(taken[name][0].retry_after_seconds for name in refused))


def succeeded(one: Try) -> None:
    """It cost nothing, and whoever logs in has all tries again."""
    with transaction.atomic():
        _locked(one.buckets)
        for name, limit in one.buckets.items():
            rows = LoginBucket.objects.filter(name=name)
            if limit in ("address", "user"):
                rows.update(full_at_us=F("full_at_us") - LIMITS[limit].interval_us)
            else:
                rows.update(full_at_us=0)


def recognition(user: str) -> str:
    """What a browser keeps of a login, by which its next tries are counted alone. It opens nothing."""
    return signing.dumps([_hidden("user", user), secrets.token_urlsafe(12)], salt=_SALT)


def forget_old(now: datetime, *, limit: int = BATCH_SIZE) -> int:
    """Buckets that are full again, and sessions that have ended; how many."""
    full = LoginBucket.objects.filter(full_at_us__lt=_us(now) - _us_of(_TOLD_EVERY)).order_by("full_at_us")
    ended = Session.objects.filter(expire_date__lt=now).order_by("expire_date")
    return forget(full, limit=limit) + forget(ended, limit=limit)


def _buckets(user: str, network: str, browser: str) -> dict[str, str]:
    if browser:
        return {_hidden("browser", browser): "known browser"}
    return {
        _hidden("pair", user, network): "user from this address",
        _hidden("address", network): "address",
        _hidden("user", user): "user",
    }


def _browser_of(user: str, known: str) -> str:
    """Empty if it is none of this user's."""
    try:
        whose, browser = signing.loads(known, salt=_SALT, max_age=KNOWN_FOR)
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(browser) if whose == _hidden("user", user) else ""


def _locked(names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Until the end of the transaction: when each is full again, and when it was last told of."""
    in_order = sorted(names)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK.format(rows=", ".join(["(%s, 0, 0)"] * len(in_order))), in_order)
        return {name: (full_at_us, told_at_us) for name, full_at_us, told_at_us in cursor.fetchall()}


def _tell(limit: str, user: str, address: str) -> None:
    # A name that is nobody's may be a password in the wrong field.
    is_somebody = get_user_model()._default_manager.filter(**{get_user_model().USERNAME_FIELD: user}).exists()
    events.warn("logins are refused: too many tries", by=limit, user=user if is_somebody else None, address=address)


def _network(address: str) -> str:
    """What one caller has of addresses: of IPv6 a whole network. Some proxies write the port as well."""
    for text in (address, address.rpartition(":")[0].strip("[]")):
        try:
            found: Any = ip_address(text.strip())
        except ValueError:
            continue
        if isinstance(found, IPv6Address):
            mapped: IPv4Address | None = found.ipv4_mapped
            found = mapped or IPv6Network((int(found) >> 64 << 64, 64))
        return str(found)
    return address


def _hidden(*words: str) -> str:
    said = "\0".join(words).encode("utf-8", "surrogatepass")
    return salted_hmac(_SALT, said, algorithm="sha256").hexdigest()


def _us(moment: datetime) -> int:
    return int(moment.timestamp() * _SECOND_US)


def _us_of(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
