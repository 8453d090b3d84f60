"""Reads the arrows of a chart that is drawn with lines.

Lines that touch are one; each word where such a line begins leads to each word that one of its arrowheads points to.
"""

import re

Place = tuple[int, int]
Arrow = tuple[str, str]

UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
LINES = {
    "─": {LEFT, RIGHT},
    "│": {UP, DOWN},
    "┌": {RIGHT, DOWN},
    "┐": {LEFT, DOWN},
    "└": {RIGHT, UP},
    "┘": {LEFT, UP},
    "├": {UP, DOWN, RIGHT},
    "┤": {UP, DOWN, LEFT},
    "┬": {LEFT, RIGHT, DOWN},
    "┴": {LEFT, RIGHT, UP},
}
HEADS = {"►": RIGHT, "◄": LEFT, "▼": DOWN, "▲": UP}


def arrows(chart: str, names: set[str]) -> set[Arrow]:
    """All (from, to) of the chart. A line or arrowhead that leads nowhere is an error of the chart."""
    rows = chart.splitlines()
    grid = {(y, x): sign for y, row in enumerate(rows) for x, sign in enumerate(row)}
    words = {
        (y, x): match[0]
        for y, row in enumerate(rows)
        for match in re.finditer(r"[A-Z_]+", row)
        if match[0] in names
        for x in range(match.start(), match.end())
    }
    found: set[Arrow] = set()
    unseen = {place for place, sign in grid.items() if sign in LINES}
    while unseen:
        sources, targets = _follow(unseen.pop(), unseen, grid, words)
        found |= {(source, target) for source in sources for target in targets}
    return found


def _follow(start: Place, unseen: set[Place], grid: dict[Place, str], words: dict[Place, str]) -> tuple[set, set]:
    """The words where the line through a place begins, and those that its arrowheads point to."""
    sources, targets, todo = set(), set(), [start]
    while todo:
        place = todo.pop()
        for way in LINES[grid[place]]:
            beside = _step(place, way)
            sign = grid.get(beside, " ")
            if sign in LINES and _opposite(way) in LINES[sign]:
                if beside in unseen:
                    unseen.remove(beside)
                    todo.append(beside)
            elif HEADS.get(sign) == way:
                targets.add(_word(beside, way, grid, words))
            else:
                sources.add(_word(place, way, grid, words))
    assert sources, f"the line at {start} begins nowhere"
    assert targets, f"the line at {start} has no arrowhead"
    return sources, targets


def _word(place: Place, way: Place, grid: dict[Place, str], words: dict[Place, str]) -> str:
    """The word next to a place, perhaps after a space."""
    beside = _step(place, way)
    if grid.get(beside, " ") == " " and way in (LEFT, RIGHT):
        beside = _step(beside, way)
    assert beside in words, f"the line at {place} leads to no state"
    return words[beside]


def _step(place: Place, way: Place) -> Place:
    return place[0] + way[0], place[1] + way[1]


def _opposite(way: Place) -> Place:
    return -way[0], -way[1]
