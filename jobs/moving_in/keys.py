"""The key of a job that comes from elsewhere, made of its name there. Pure: no Django.

Invariant: the same name leads to the same job, however often it is asked and whatever comes or goes beside it. A name
that no other looks like becomes a plain key; names that look alike get a hash of their own. Where it cannot be told
whose job a stored key is, there is no answer.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import sha256

MOST_CHARACTERS = 200
_NOT_IN_A_KEY = re.compile(r"[^a-z0-9._:@/-]+")
_HASH_CHARACTERS = 8


def keys_of(names: Sequence[str], *, prefix: str = "", stored: Collection[str] = ()) -> list[str | None]:
    """For each name its key; None: one like it is stored, and may be the job of another name.

    `stored` are the keys of jobs that came from there before.
    """
    plain = {name: plain_key(name, prefix) for name in names}
    alike = Counter(plain[name] for name in dict.fromkeys(names))
    return [_key(name, plain[name], prefix, is_alone=alike[plain[name]] == 1, stored=stored) for name in names]


def _key(name: str, plain: str, prefix: str, *, is_alone: bool, stored: Collection[str]) -> str | None:
    hashed = hashed_key(name, prefix)
    if plain and prefix + name == plain:
        return plain
    if hashed in stored or not plain:
        return hashed
    if is_alone:
        return plain
    return None if plain in stored else hashed


def plain_key(name: str, prefix: str = "") -> str:
    """Letters, digits and a few signs of it, in small letters; empty: there is none, or it is too long."""
    found = prefix + _slug(name)
    return found if found != prefix and len(found) <= MOST_CHARACTERS else ""


def hashed_key(name: str, prefix: str = "") -> str:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    room = MOST_CHARACTERS - len(prefix) - len(digest) - 1
    return f"{prefix}{_slug(name)[: max(room, 0)].rstrip('-') or 'task'}-{digest}"


def _slug(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_A_KEY.sub("-", letters).strip("-._:@/")
