"""Secrets by name: keep, replace and remove them, and open them for whoever sends a request.

Owns every change of a secret. Invariants: what is kept is sealed; a value is told to nobody but the sender of a
request, and a new signing key once to whoever asked for it; what an open job names cannot be removed. `now` is for
tests; left out, it is the database's time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any

from django.apps import apps
from django.db import IntegrityError, transaction
from django.db.models import Count, ProtectedError, Q
from django.views.decorators.debug import sensitive_variables

from executions.clock import database_now
from executions.storable import storable_text
from jobs import signing, vault, web_address
from jobs.http_target import MOST_HEADER_CHARACTERS, HttpTarget, is_header_value, is_secret_name
from jobs.models import Job, Secret, SecretPart, SecretUse
from jobs.refusals import InvalidSecret, NoSuchSecret, SecretInUse, check_text, shown

# How long the signing keys before a new one go on being used beside it.
OVERLAP_OF_KEYS = timedelta(hours=24)
MOST_KEYS = 5
MOST_HOSTS = 50
_BY_CHARACTERS = 200


@dataclass(frozen=True)
class Kept:
    """A secret, and its new signing key this one time if it was made here."""

    secret: Secret
    is_new: bool
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Material:
    """What the sender of one request needs, opened."""

    signing_keys: tuple[str, ...] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # by the name of the header
    others: tuple[str, ...] = field(default=(), repr=False)  # what else of the request is secret


@sensitive_variables()
def keep(
    name: str,
    use: SecretUse,
    *,
    value: str = "",
    hosts: Sequence[str] | None = None,
    by: str = "",
    now: datetime | None = None,
) -> Kept:
    """Store a new one. A signing key without a value is made here, and told this once."""
    check_text(InvalidSecret, name=name, value=value, by=by)
    if not is_secret_name(name):
        raise InvalidSecret(
            "name", f"The name {shown(name)} must be 1 to 100 letters, digits and . _ -, a letter or digit first."
        )
    now, (given, made) = now or database_now(), _value(use, value)
    try:
        with transaction.atomic():
            secret = Secret.objects.create(
                name=name,
                use=use,
                hosts=_hosts(hosts or ()),
                created_at=now,
                changed_at=now,
                changed_by=storable_text(by, _BY_CHARACTERS),
            )
            SecretPart.objects.create(secret=secret, sealed=vault.seal(given), created_at=now)
    except IntegrityError:
        raise InvalidSecret(
            "name", f"There is a secret {name!r} already; replace it, or choose another name."
        ) from None
    return Kept(secret, True, made)


@sensitive_variables()
def replace(
    name: str,
    *,
    value: str = "",
    hosts: Sequence[str] | None = None,
    overlap: timedelta = OVERLAP_OF_KEYS,
    by: str = "",
    now: datetime | None = None,
) -> Kept:
    """Give it another value. Signing keys before it are used beside the new one for a while; other values are gone.

    Without hosts it keeps those it has.
    """
    check_text(InvalidSecret, name=name, value=value, by=by)
    if overlap < timedelta(0):
        raise InvalidSecret("overlap", "The overlap must not be negative.")
    now = now or database_now()
    with transaction.atomic():
        secret = _held(name)
        given, made = _value(SecretUse(secret.use), value)
        if secret.use == SecretUse.SIGNING:
            _end_keys(secret, at=now + overlap, now=now)
        else:
            secret.parts.all().delete()
        SecretPart.objects.create(secret=secret, sealed=vault.seal(given), created_at=now)
        secret.hosts = secret.hosts if hosts is None else _hosts(hosts)
        secret.changed_at, secret.changed_by = now, storable_text(by, _BY_CHARACTERS)
        secret.save(update_fields=["hosts", "changed_at", "changed_by"])
    return Kept(secret, False, made)


@sensitive_variables()
def put(
    name: str,
    use: SecretUse,
    *,
    value: str = "",
    hosts: Sequence[str] | None = None,
    overlap: timedelta = OVERLAP_OF_KEYS,
    by: str = "",
    now: datetime | None = None,
) -> Kept:
    """Keep it, or replace it if it is there."""
    found = Secret.objects.filter(name=name).first() if is_secret_name(name) else None
    if found is None:
        return keep(name, use, value=value, hosts=hosts, by=by, now=now)
    if found.use != use:
        raise InvalidSecret(
            "use", f"The secret {name!r} is for {found.use.lower()}, and that cannot be changed; choose another name."
        )
    return replace(name, value=value, hosts=hosts, overlap=overlap, by=by, now=now)


def listed(now: datetime, **only: object) -> list[Secret]:
    """Without their parts; `keys` is how many of these are in use."""
    live = Count("parts", filter=Q(parts__ends_at=None) | Q(parts__ends_at__gt=now))
    return list(Secret.objects.filter(**only).annotate(keys=live).order_by("name"))


def _end_keys(secret: Secret, *, at: datetime, now: datetime) -> None:
    secret.parts.filter(ends_at__lte=now).delete()
    if secret.parts.count() >= MOST_KEYS:
        raise InvalidSecret(
            "name", f"The secret {secret.name!r} has {MOST_KEYS} keys in use already; wait until one has ended."
        )
    secret.parts.filter(Q(ends_at=None) | Q(ends_at__gt=at)).update(ends_at=at)


def remove(name: str) -> None:
    check_text(InvalidSecret, name=name)
    with transaction.atomic():
        secret = _held(name)
        if users := jobs_that_name(name):
            more = f" and {len(users) - 3} more" if len(users) > 3 else ""
            raise SecretInUse(
                "name", f"The secret {name!r} is used by {', '.join(users[:3])}{more}; change or archive them first."
            )
        try:
            secret.delete()
        except ProtectedError as error:
            users = sorted(map(str, error.protected_objects))
            raise SecretInUse(
                "name", f"The secret {name!r} is used by the receiver {users[0]!r}; give that another one first."
            ) from None


def reseal() -> int:
    """Seal all anew with the first of the keys; how many there were."""
    with transaction.atomic():
        parts = list(SecretPart.objects.select_for_update(of=("self",)).select_related("secret"))
        for part in parts:
            try:
                part.sealed = vault.seal(vault.opened(part.sealed))
            except vault.CannotOpen as error:
                name = part.secret.name
                raise InvalidSecret("name", f"Nothing was changed: {name!r} cannot be opened, {error}.") from None
        SecretPart.objects.bulk_update(parts, ["sealed"])
        return len(parts) + sum(map(_reseal_columns, _that_seal_columns()))


@sensitive_variables()
def _reseal_columns(model: Any) -> int:
    rows = list(model._default_manager.select_for_update(of=("self",)))
    count = 0
    for row in rows:
        for column in filter(partial(getattr, row), model.SEALED):
            try:
                setattr(row, column, vault.seal(vault.opened(getattr(row, column))))
            except vault.CannotOpen as error:
                raise InvalidSecret("name", f"Nothing was changed: {str(row)!r} cannot be opened, {error}.") from None
            count += 1
    model._default_manager.bulk_update(rows, model.SEALED)
    return count


def _that_seal_columns() -> list[Any]:
    """Models of other apps that keep sealed texts of their own, and name the columns."""
    return [model for model in apps.get_models() if getattr(model, "SEALED", ())]


def jobs_that_name(name: str) -> list[str]:
    """The keys of open jobs. Few jobs send requests, so they are all looked at."""
    open_jobs = Job.objects.open().exclude(http=None).order_by("key").values_list("key", "http")
    return [key for key, http in open_jobs if http and name in HttpTarget.stored(http).secret_names()]


def missing() -> dict[str, list[str]]:
    """Names of secrets that are not there, with the keys of the open jobs that want them."""
    wanted: dict[str, list[str]] = {}
    open_jobs = Job.objects.open().exclude(http=None).order_by("key").values_list("key", "http")
    for key, http in open_jobs.iterator():
        for name in HttpTarget.stored(http).secret_names() if http else ():
            wanted.setdefault(name, []).append(key)
    there = set(Secret.objects.values_list("name", flat=True))
    return {name: keys for name, keys in sorted(wanted.items()) if name not in there}


@sensitive_variables()
def that_cannot_be_opened() -> list[str]:
    """Names of secrets that were sealed with a key that is not at hand."""
    sealed = []
    for name, part in SecretPart.objects.order_by("secret__name").values_list("secret__name", "sealed"):
        try:
            vault.opened(part)
        except vault.CannotOpen:
            sealed.append(name)
    for model in _that_seal_columns():
        for row in model._default_manager.all():
            try:
                _ = [vault.opened(getattr(row, column)) for column in model.SEALED if getattr(row, column)]
            except vault.CannotOpen:
                sealed.append(str(row))
    return sorted(set(sealed))


def check_kept(http: HttpTarget, host: str) -> None:
    """Refuse a target that names a secret that is not there, or one for another use or another host."""
    kept = {secret.name: secret for secret in Secret.objects.filter(name__in=http.secret_names())}
    wanted = [("http.headers", name, SecretUse.HEADER) for _, name in http.secret_headers()]
    wanted += [("http.secret", http.secret, SecretUse.SIGNING)] if http.secret else []
    for place, name, use in wanted:
        if name not in kept:
            raise InvalidSecret(place, f"There is no secret {name!r}; {_remedy(name)}")
        if kept[name].use != use:
            raise InvalidSecret(
                place, f"The secret {name!r} is for {kept[name].use.lower()}, not for {use.lower()}; name another."
            )
        if not kept[name].is_for(host):
            raise InvalidSecret(place, f"The secret {name!r} is not for {host}; an admin can add that host to it.")


@sensitive_variables()
def material(http: HttpTarget, host: str, *, now: datetime) -> Material:
    """Raises LookupError for a secret that is gone or for other hosts, and vault.CannotOpen."""
    names = http.secret_names()
    if not names:
        return Material()
    live = SecretPart.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now), secret__name__in=names)
    parts: dict[str, list[str]] = {}
    for part in live.select_related("secret").order_by("-created_at", "-pk"):
        if not part.secret.is_for(host):
            raise LookupError(f"{part.secret.name!r} is not for {host}")
        parts.setdefault(part.secret.name, []).append(part.sealed)
    for name in names:
        if name not in parts:
            raise LookupError(f"{name!r} is gone")
    keys = tuple(map(vault.opened, parts[http.secret])) if http.secret else ()
    return Material(keys, {header: vault.opened(parts[name][0]) for header, name in http.secret_headers()})


def _hosts(texts: Sequence[str]) -> list[str]:
    if len(texts) > MOST_HOSTS:
        raise InvalidSecret("hosts", f"A secret may have {MOST_HOSTS} hosts, not {len(texts)}.")
    try:
        return sorted({web_address.host(text) for text in texts})
    except web_address.Unfit as unfit:
        raise InvalidSecret("hosts", str(unfit)) from None


def _held(name: str) -> Secret:
    secret = Secret.objects.select_for_update().filter(name=name).first() if is_secret_name(name) else None
    if secret is None:
        raise NoSuchSecret("name", f"There is no secret {shown(name)}; {_remedy(name)}")
    return secret


def _remedy(name: str) -> str:
    near = get_close_matches(name, _names(), n=1)
    return f"did you mean {near[0]!r}?" if near else "keep it first, with `./onbeat secrets` or PUT /api/v1/secrets."


def _names() -> Collection[str]:
    return list(Secret.objects.values_list("name", flat=True)[:1000])


@sensitive_variables()
def _value(use: SecretUse, value: str) -> tuple[str, str]:
    """What to keep, and what to tell of it. Of a value that cannot be nothing is shown."""
    if use is SecretUse.SIGNING:
        if not value:
            made = signing.new_key()
            return made, made
        try:
            signing.key_bytes(value)
        except ValueError as error:
            raise InvalidSecret("value", f"The value cannot sign: {error}.") from None
    elif not value or not is_header_value(value):
        raise InvalidSecret(
            "value", f"The value must be a line of 1 to {MOST_HEADER_CHARACTERS} printable ASCII characters."
        )
    return value, ""
