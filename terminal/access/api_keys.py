"""Make, list and revoke API keys from a terminal: parse, call one function, say what became of it."""

from argparse import ArgumentParser
from datetime import UTC, date, datetime, timedelta
from typing import Any

from access import api_keys
from access.models import ApiKey
from access.roles import Role
from executions.clock import database_now
from executions.commands import clock
from jobs.refusals import shown
from terminal.frame import Asked, Told, Verb
from terminal.paper import table, toned

_ONCE = "This is its secret, and it is shown only this once: keep it where only its user can read it."
_HEADS = ("PREFIX", "ROLE", "STATE", "CREATED", "EXPIRES", "LAST USED", "NAME")


class Create(Verb):
    name = "create"
    does = "make a key and show its secret once"
    explains = "With --json the secret is in the document."
    examples = (
        "api_keys create --name 'billing server' --role editor --days 365",
        "api_keys create --name ci --role viewer --expires 2027-01-31 --json",
    )
    changes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
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

    def act(self, asked: Asked) -> Told:
        now = database_now()
        made = api_keys.make(
            name=asked["name"],
            role=asked["role"],
            expires_at=_end(asked["expires"], asked["days"], now),
            **asked.signature,
            now=now,
        )
        if asked.paper.is_json:
            asked.paper.aside(_ONCE)
        end = f"expires at {clock(made.key.expires_at)}" if made.key.expires_at else "does not expire"
        told = f"Made the API key {made.key}: {made.key.role}, {end}."
        return Told({**facts_of(made.key, now), "secret": made.secret}, [told, _ONCE, made.secret])


class List(Verb):
    name = "list"
    does = "list the keys that are valid"
    examples = ("api_keys list", "api_keys list --all --json")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="Also those that expired or were revoked.")

    def act(self, asked: Asked) -> Told:
        now = database_now()
        keys = ApiKey.objects.order_by("created_at", "pk")
        found = list(keys if asked["all"] else keys.valid(now))
        data = {"api_keys": [facts_of(key, now) for key in found]}
        if not found:
            kind = "API key" if asked["all"] else "valid API key"
            return Told(data, [f"There is no {kind}; `./onbeat api_keys create` makes one."])
        return Told(data, [table(_HEADS, [_cells(key, now) for key in found], whole=_HEADS[:1])])


class Revoke(Verb):
    name = "revoke"
    does = "end a key for good"
    examples = ("api_keys revoke k3v9x0q2m7ab",)
    changes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prefix", help="What `api_keys list` shows, or the whole secret.")

    def act(self, asked: Asked) -> Told:
        now = database_now()
        key = api_keys.revoke(asked["prefix"], **asked.signature, now=now)
        by = f" by {key.revoked_by}" if key.revoked_by else ""
        before = f"The API key {key} was revoked{by} before, at {clock(key.revoked_at)}."
        told = f"Revoked the API key {key}: it opens nothing from now on." if key.revoked_at == now else before
        return Told(facts_of(key, now), [told])


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


def _cells(key: ApiKey, now: datetime) -> tuple[Any, ...]:
    moments = (clock(key.created_at), clock(key.expires_at), clock(key.last_used_at))
    return (key.prefix, key.role, toned(key.state(now)), *moments, key.name)


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
