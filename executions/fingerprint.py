"""Which errors look alike. Pure: no Django.

Owns what is the same in two errors of one cause: the kind of error, where it was raised, and its message without what
differs from run to run. Invariant: the same cause at the same place has the same fingerprint, whatever numbers, ids,
addresses and quoted values its message holds.
"""

import hashlib
import re

CHARACTERS = 16
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line \d+, in (?P<function>\S+)', re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_DIFFERS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F-]{32,36}\b|\d+")


def of_error(error: str) -> str:
    """Of a traceback, or of any text that tells what went wrong. Empty for no error."""
    if not error:
        return ""
    frames = _FRAME.findall(error)
    place = "/".join(frames[-1]) if frames else ""
    said = [line for line in error.splitlines() if line.strip()]
    # A traceback ends with the error itself; a message of several lines begins there.
    last = next((line for line in reversed(said) if not line.startswith((" ", "\t"))), said[-1] if said else "")
    message = _DIFFERS.sub("#", _QUOTED.sub("'…'", last.strip()))
    return hashlib.sha256(f"{place}\n{message}".encode("utf-8", "replace")).hexdigest()[:CHARACTERS]
