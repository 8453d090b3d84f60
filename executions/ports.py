"""Where a process may listen, in words: `host:port` or `host:first-last`. Pure: no Django."""

import re

_WORDS = re.compile(r"(?P<host>[^\s/]+):(?P<first>[0-9]{1,5})(-(?P<last>[0-9]{1,5}))?")


def parsed(address: str) -> tuple[str, range]:
    """Host and ports. Raises ValueError."""
    words = _WORDS.fullmatch(address)
    if words is None:
        raise ValueError(address)
    found = range(int(words["first"]), int(words["last"] or words["first"]) + 1)
    if not found or not 0 < found[0] <= found[-1] < 65536:
        raise ValueError(address)
    return words["host"].strip("[]"), found
