"""Make, list and revoke API keys from a terminal: parse, call one function, say what became of it."""

import json
from argparse import ArgumentParser
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.core.management.base import CommandError

from access import api_keys
from access.models import ApiKey
from access.roles import Role
from executions.clock import database_now
from executions.commands import REFUSED, PlatformCommand, clock, table, user
from jobs.refusals import Refused, shown

_ONCE = "This is its secret, and it is shown only this once: keep it where only its user can read it."
_HEADS = ("PREFIX", "ROLE", "STATE", "CREATED", "EXPIRES", "LAST USED", "NAME")


class Command(PlatformCommand):
    help = "Make, list and revoke API keys. `api_keys COMMAND --help` tells more."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        self._add_create(commands.add_parser("create", help="make a key and show its secret once"))
        self._add_list(commands.add_parser("list", help="list the keys that are valid"))
        self._add_revoke(commands.add_parser("revoke", help="end a key for good"))

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            options["act"](options)
        except Refused as refused:
            raise CommandError(str(refused), returncode=REFUSED) from None

    def _add_create(self, parser: ArgumentParser) -> None:
        roles = "; ".join(f"{role}: {role.may}" for role in Role)
        parser.add_argument("--name", required=True, help="What the key is for.")
        parser.add_argument(
            "--role", required=True, help=f"What it may do, each also what those before it may. {roles}."
        )
        end = parser.add_mutually_exclusive_group()
        end.add_argument(
            "--expires",
            metavar="DATE",
            help="Its last day (2027-01-31), or its end (2027-01-31T18:00Z); in UTC if no offset is given.",
        )
        end.add_argument("--days", type=int, metavar="N", help="It expires this many days from now.")
        parser.add_argument("--json", action="store_true", help="Print one line of JSON, the secret in it, instead.")
        parser.set_defaults(act=self._create)

    def _create(self, options: dict[str, Any]) -> None:
        now = database_now()
        made = api_keys.make(
            name=options["name"],
            role=options["role"],
            expires_at=_end(options["expires"], options["days"], now),
            by=user(),
            through="command",
            now=now,
        )
        if options["json"]:
            self.stdout.write(json.dumps({**facts_of(made.key, now), "secret": made.secret}))
            self.stderr.write(_ONCE)
            return
        end = f"expires at {clock(made.key.expires_at)}" if made.key.expires_at else "does not expire"
        self.stdout.write(f"Made the API key {made.key}: {made.key.role}, {end}.")
        self.stdout.write(_ONCE)
        self.stdout.write(made.secret)

    def _add_list(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="Also those that expired or were revoked.")
        parser.add_argument("--json", action="store_true", help="Print one line of JSON instead.")
        parser.set_defaults(act=self._list)

    def _list(self, options: dict[str, Any]) -> None:
        now = database_now()
        keys = ApiKey.objects.order_by("created_at", "pk")
        keys = keys if options["all"] else keys.valid(now)
        if options["json"]:
            self.stdout.write(json.dumps({"api_keys": [facts_of(key, now) for key in keys]}))
        elif rows := [_cells(key, now) for key in keys]:
            for line in table(_HEADS, rows):
                self.stdout.write(line)
        else:
            kind = "API key" if options["all"] else "valid API key"
            self.stdout.write(f"There is no {kind}; `./onbeat api_keys create` makes one.")

    def _add_revoke(self, parser: ArgumentParser) -> None:
        parser.add_argument("prefix", help="What `api_keys list` shows, or the whole secret.")
        parser.add_argument("--json", action="store_true", help="Print one line of JSON instead.")
        parser.set_defaults(act=self._revoke)

    def _revoke(self, options: dict[str, Any]) -> None:
        now = database_now()
        key = api_keys.revoke(options["prefix"], by=user(), through="command", now=now)
        if options["json"]:
            self.stdout.write(json.dumps(facts_of(key, now)))
        elif key.revoked_at == now:
            self.stdout.write(f"Revoked the API key {key}: it opens nothing from now on.")
        else:
            by = f" by {key.revoked_by}" if key.revoked_by else ""
            self.stdout.write(f"The API key {key} was revoked{by} before, at {clock(key.revoked_at)}.")


def _end(expires: str | None, days: int | None, now: datetime) -> datetime | None:
    """The moment that a person means. A day is meant whole."""
    try:
        if days is not None:
            return now + timedelta(days=days)
        if expires is None:
            return None
        moment = datetime.fromisoformat(expires)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return moment + timedelta(days=1) if _is_day(expires) else moment
    except OverflowError:
        said = f"--days {days}" if days is not None else f"--expires {shown(expires)}"
        raise api_keys.InvalidKey("expires_at", f"{said} is too far; leave it out for a key without an end.") from None
    except ValueError:
        raise api_keys.InvalidKey(
            "expires_at", f"--expires {shown(expires)} is no date; write one such as 2027-01-31, or 2027-01-31T18:00Z."
        ) from None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _cells(key: ApiKey, now: datetime) -> tuple[str, ...]:
    moments = (clock(key.created_at), clock(key.expires_at), clock(key.last_used_at))
    return (key.prefix, key.role, key.state(now), *moments, key.name)


def facts_of(key: ApiKey, now: datetime) -> dict[str, Any]:
    def said(moment: datetime | None) -> str | None:
        return None if moment is None else moment.astimezone(UTC).isoformat()

    return {
        "prefix": key.prefix,
        "name": key.name,
        "role": str(key.role),
        "state": key.state(now),
        "created_at": said(key.created_at),
        "created_by": key.created_by,
        "expires_at": said(key.expires_at),
        "revoked_at": said(key.revoked_at),
        "revoked_by": key.revoked_by,
        "last_used_at": said(key.last_used_at),
    }
