"""Keep, list and remove secrets from a terminal: parse, call one function, say what became of it."""

import getpass
import json
import sys
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from access import audit
from executions.clock import database_now
from executions.commands import REFUSED, PlatformCommand, clock, table, user
from jobs import kept_secrets
from jobs.models import SecretUse
from jobs.refusals import InvalidSecret, Refused

_ONCE = "This is its key, and it is shown only this once: give it to the receiver, which verifies signatures with it."
_HEADS = ("NAME", "USE", "KEYS", "HOSTS", "CHANGED", "BY")
_THROUGH = "command"
_MOST_HOURS = 24 * 366


class Command(PlatformCommand):
    help = "Keep what HTTP callbacks name: signing keys and values of headers. `secrets COMMAND --help` tells more."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        self._add_keep(commands.add_parser("keep", help="keep a secret, or replace it"))
        self._add_list(commands.add_parser("list", help="list them by name, without their values"))
        self._add_remove(commands.add_parser("remove", help="remove one that no open job names"))
        reseal = commands.add_parser("reseal", help="seal all anew with the first key of ONBEAT_CALLBACKS_SECRET_KEYS")
        reseal.set_defaults(act=self._reseal)

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            options["act"](options)
        except Refused as refused:
            raise CommandError(str(refused), returncode=REFUSED) from None

    def _add_keep(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="By which jobs name it.")
        parser.add_argument("--use", required=True, choices=[use.lower() for use in SecretUse])
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
        parser.add_argument("--json", action="store_true", help="Print one line of JSON instead.")
        parser.set_defaults(act=self._keep)

    def _keep(self, options: dict[str, Any]) -> None:
        use, now = SecretUse(options["use"].upper()), database_now()
        value, by = _value(options["value_from"], use), user()
        with transaction.atomic():
            kept = kept_secrets.put(
                options["name"],
                use,
                value=value,
                hosts=options["host"],
                overlap=_overlap(options["overlap_hours"]),
                by=by,
                now=now,
            )
            action = "secret.create" if kept.is_new else "secret.replace"
            audit.record(
                who=by,
                through=_THROUGH,
                action=action,
                subject=f"secret:{kept.secret.name}",
                after={"use": use.lower(), "hosts": kept.secret.hosts},
            )
        if options["json"]:
            said = {"name": kept.secret.name, "use": use.lower(), "is_new": kept.is_new}
            self.stdout.write(json.dumps(said | ({"key": kept.key} if kept.key else {})))
            return
        self.stdout.write(f"{'Kept' if kept.is_new else 'Replaced'} the secret {kept.secret.name}, for {use.lower()}.")
        if kept.key:
            self.stdout.write(_ONCE)
            self.stdout.write(kept.key)

    def _add_list(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print one line of JSON instead.")
        parser.set_defaults(act=self._list)

    def _list(self, options: dict[str, Any]) -> None:
        found: list[Any] = kept_secrets.listed(database_now())
        if options["json"]:
            names = ("name", "keys", "hosts", "changed_by")
            said = [{n: getattr(each, n) for n in names} | {"use": each.use.lower()} for each in found]
            self.stdout.write(json.dumps({"secrets": said}))
        elif rows := [_cells(each) for each in found]:
            for line in table(_HEADS, rows):
                self.stdout.write(line)
        else:
            self.stdout.write("There is no secret; `./onbeat secrets keep NAME --use signing` makes one.")

    def _add_remove(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.set_defaults(act=self._remove)

    def _remove(self, options: dict[str, Any]) -> None:
        with transaction.atomic():
            kept_secrets.remove(options["name"])
            audit.record(who=user(), through=_THROUGH, action="secret.remove", subject=f"secret:{options['name']}")
        self.stdout.write(f"Removed the secret {options['name']}.")

    def _reseal(self, _options: dict[str, Any]) -> None:
        self.stdout.write(f"Sealed {kept_secrets.reseal()} values anew with the first key.")


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
