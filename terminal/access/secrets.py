"""Keep, list and remove secrets from a terminal: parse, call one function, say what became of it."""

import getpass
import sys
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import transaction

from access import audit
from executions.clock import database_now
from executions.commands import clock
from jobs import kept_secrets
from jobs.models import SecretUse
from jobs.refusals import InvalidSecret
from terminal.frame import THROUGH, Asked, Told, Verb
from terminal.paper import table

_ONCE = "This is its key, and it is shown only this once: give it to the receiver, which verifies signatures with it."
_HEADS = ("NAME", "USE", "KEYS", "HOSTS", "CHANGED", "BY")
_MOST_HOURS = 24 * 366


class Keep(Verb):
    name = "keep"
    does = "keep a secret, or replace it"
    examples = (
        "secrets keep billing --use signing",
        "secrets keep token --use header --value-from token.txt --host api.example.com",
    )
    changes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="By which jobs name it.")
        parser.add_argument("--use", required=True, choices=[use.lower() for use in SecretUse], help="What it is for.")
        parser.add_argument(
            "--value-from",
            metavar="FILE",
            help="Read the value from a file, or from standard input (-). Without it a signing key is made, and the "
            "value of a header is asked for. Never as an argument: others on the machine could read it.",
        )
        parser.add_argument(
            "--host",
            action="append",
            metavar="NAME",
            help="It may be sent to this host alone, or sign for it; may be said several times. Without it to any "
            "host that a job names, or as it was.",
        )
        parser.add_argument(
            "--overlap-hours",
            type=float,
            default=kept_secrets.OVERLAP_OF_KEYS / timedelta(hours=1),
            metavar="N",
            help="How long the signing keys before it are used beside the new one (default: %(default)g).",
        )

    def act(self, asked: Asked) -> Told:
        use, now = SecretUse(asked["use"].upper()), database_now()
        value = _value(asked["value_from"], use)
        with transaction.atomic():
            kept = kept_secrets.put(
                asked["name"],
                use,
                value=value,
                hosts=asked["host"],
                overlap=_overlap(asked["overlap_hours"]),
                by=asked.by,
                now=now,
            )
            action = "secret.create" if kept.is_new else "secret.replace"
            _record(asked, action, kept.secret.name, after={"use": use.lower(), "hosts": kept.secret.hosts})
        said = {"name": kept.secret.name, "use": use.lower(), "is_new": kept.is_new}
        told = f"{'Kept' if kept.is_new else 'Replaced'} the secret {kept.secret.name}, for {use.lower()}."
        if not kept.key:
            return Told(said, [told])
        return Told({**said, "key": kept.key}, [told, _ONCE, kept.key])


class List(Verb):
    name = "list"
    does = "list them by name, without their values"
    examples = ("secrets list", "secrets list --json")

    def act(self, asked: Asked) -> Told:  # noqa: ARG002 - there is nothing to ask for
        found: list[Any] = kept_secrets.listed(database_now())
        names = ("name", "keys", "hosts", "changed_by")
        data = {"secrets": [{n: getattr(each, n) for n in names} | {"use": each.use.lower()} for each in found]}
        if not found:
            return Told(data, ["There is no secret; `./onbeat secrets keep NAME --use signing` makes one."])
        return Told(data, [table(_HEADS, map(_cells, found), whole=_HEADS[:1])])


class Remove(Verb):
    name = "remove"
    does = "remove one that no open job names"
    examples = ("secrets remove billing",)
    changes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="By which jobs named it.")

    def act(self, asked: Asked) -> Told:
        with transaction.atomic():
            kept_secrets.remove(asked["name"])
            _record(asked, "secret.remove", asked["name"])
        return Told({"removed": asked["name"]}, [f"Removed the secret {asked['name']}."])


class Reseal(Verb):
    name = "reseal"
    does = "seal all anew with the first key of ONBEAT_CALLBACKS_SECRET_KEYS"
    examples = ("secrets reseal",)
    changes = True

    def act(self, asked: Asked) -> Told:
        with transaction.atomic():
            sealed = kept_secrets.reseal()
            audit.record(
                who=asked.by, through=THROUGH, action="secret.reseal", subject="secrets", after={"sealed": sealed}
            )
        return Told({"sealed": sealed}, [f"Sealed {sealed} values anew with the first key."])


def _record(asked: Asked, action: str, name: str, *, after: Any = None) -> None:
    audit.record(who=asked.by, through=THROUGH, action=action, subject=f"secret:{name}", after=after)


def _overlap(hours: float) -> timedelta:
    if not 0 <= hours <= _MOST_HOURS:
        raise InvalidSecret("overlap", f"The overlap must be a number of hours from 0 to {_MOST_HOURS}.")
    return timedelta(hours=hours)


def _value(source: str | None, use: SecretUse) -> str:
    """Without the line's end that files and pipes bring."""
    if source is None:
        return getpass.getpass("The value, which is not shown: ") if use is SecretUse.HEADER else ""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidSecret("value", f"The value cannot be read from {source}: {reason}.") from None
    value = text.rstrip("\r\n")
    if not value:
        raise InvalidSecret("value", f"The value cannot be read from {source}: it is empty.")
    return value


def _cells(secret: Any) -> tuple[str, ...]:
    keys = str(secret.keys) if secret.use == SecretUse.SIGNING else "-"
    hosts = ", ".join(secret.hosts) or "any"
    return secret.name, secret.use.lower(), keys, hosts, clock(secret.changed_at), secret.changed_by
