"""Lists of values as people say them. Pure: no Django.

Invariant: what is said leaves no value open, or ends with how many are left out ("and 12 more").
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

LISTED = 6  # so many of a kind are all named


def joined(texts: Sequence[str], word: str = "and") -> str:
    return f"{', '.join(texts[:-1])} {word} {texts[-1]}" if len(texts) > 1 else texts[0]


def cut(pieces: Sequence[tuple[str, int]], word: str = "and") -> str:
    """Pieces, each with how many values it stands for, cut where they are too many."""
    texts = [text for text, _ in pieces]
    if len(texts) <= LISTED:
        return joined(texts, word)
    shown = LISTED - 1
    return f"{', '.join(texts[:shown])} {word} {sum(count for _, count in pieces[shown:])} more"


def series(values: Sequence[int], name: Callable[[int], str] = str, word: str = "and") -> str:
    """Ascending values: "0 and 45", "9 to 17", or "0, 7, 14 … 56" for an even step up to the last."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(values) > LISTED and len(steps) == 1 and steps != {1}:
        return f"{', '.join(map(name, values[:3]))} … {name(values[-1])}"
    pieces: list[tuple[str, int]] = []
    for run in runs(values):
        if len(run) > 2:
            pieces.append((f"{name(run[0])} to {name(run[-1])}", len(run)))
        else:
            pieces += [(name(value), 1) for value in run]
    return cut(pieces, word)


def runs(values: Sequence[int], step: int = 1) -> list[list[int]]:
    """The values in order, parted wherever the next is not one step further."""
    found = [[values[0]]]
    for earlier, later in pairwise(values):
        if later - earlier == step:
            found[-1].append(later)
        else:
            found.append([later])
    return found
