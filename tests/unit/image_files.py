"""Dockerfile, .dockerignore and compose.yaml, read so that they can be compared with the code.

What is read is what the tools would read: a test compares it with compose's own reading where there is one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launcher import env_file

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE = ROOT / "compose.yaml"
EXAMPLE = ROOT / "deploy" / "compose.env.example"

_VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^${}]*))?\}")


@dataclass(frozen=True)
class Instruction:
    word: str
    value: str
    stage: int  # counted from 0

    @property
    def words(self) -> list[str]:
        """Of the exec form; of the shell form none."""
        found = re.search(r"\[.*\]$", self.value)
        return json.loads(found[0]) if found else []


def instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[Instruction] = []
    stage = -1
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, value = line.partition(" ")
        stage += word.upper() == "FROM"
        found.append(Instruction(word.upper(), value.strip(), stage))
    return found


def of_the_final_stage(found: list[Instruction]) -> list[Instruction]:
    return [each for each in found if each.stage == found[-1].stage]


def is_let_through(path: str, ignored: str) -> bool:
    """Whether a file gets to the builder: the last line of .dockerignore that speaks of it or of a folder above it."""
    parts = path.split("/")
    above = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    is_in = True
    for line in ignored.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern = re.escape(line.strip().removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(pattern, each) for each in above):
            is_in = line.startswith("!")
    return is_in


def taken_by_copy() -> list[Path]:
    """Every file of this checkout that gets into the image, as a path from its root."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    first = [path for path in ROOT.iterdir() if is_let_through(path.name, ignored)]
    files = [file for path in first for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    paths = [file.relative_to(ROOT) for file in files]
    return sorted(path for path in paths if is_let_through(path.as_posix(), ignored))


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """The innermost first, since a default may name another variable."""

    def value(found: "re.Match[str]") -> str:
        name, sign, rest = found.groups()
        if variables.get(name):
            return variables[name]
        assert sign != "?", f"{name} must be set: {rest}"
        return rest or ""

    while (after := _VARIABLE.sub(value, text)) != text:
        text = after
    return text.replace("$$", "$")


def required() -> set[str]:
    """The variables without which compose does nothing."""
    return {name for name, sign, _ in _VARIABLE.findall(compose_text()) if sign == "?"}


def defaults() -> dict[str, str]:
    """All variables of compose.yaml, each with what holds if nothing is said."""
    text = compose_text()
    names = {found[1] for found in re.finditer(r"\$\{([A-Z_]+)", text)}
    alone = {name: rest for name, sign, rest in _VARIABLE.findall(text) if sign == "-"}
    return {name: alone.get(name, "") for name in names}


def compose_text() -> str:
    return COMPOSE.read_text(encoding="utf-8")


def filled_in() -> dict[str, str]:
    """What a person would put into the example's empty places: here each secret is its own name."""
    given = env_file.parse(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE.name)
    return {name: value or f"the-{name.lower()}" for name, value in given.items()}


def services(*profiles: str) -> dict[str, dict[str, Any]]:
    """With the variables filled in; of all profiles if none is named."""
    read = yaml.safe_load(interpolated(compose_text(), filled_in()))["services"]
    return {
        name: service
        for name, service in read.items()
        if not profiles or not service.get("profiles") or {*profiles} & {*service["profiles"]}
    }


def seconds(said: str) -> int:
    parts = re.findall(r"(\d+)(h|m|s)", said)
    assert parts, said
    return sum(int(number) * {"h": 3600, "m": 60, "s": 1}[unit] for number, unit in parts)


def size(said: str) -> int:
    found = re.fullmatch(r"(\d+)([kmg])b?", said.lower())
    assert found, said
    return int(found[1]) * 1024 ** ("kmg".index(found[2]) + 1)
