"""A job's definition as options of a command line, and the body of the API that they say.

Owns the names of the options. Invariant: an option says one place of the body, so that what the API's code refuses is
told by the option to correct. What no option says can be read from a file; what is said goes over the file as a
change goes over a job, and of a request only what is named.
"""

import json
import re
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from api.jobs import bodies
from executions.retry import Backoff
from executions.states import Overlap
from jobs.misfires import Misfire
from jobs.refusals import InvalidRun, shown
from terminal.frame import Asked, refuse
from terminal.moments import duration_of, moment_of

_WHOLE = re.compile(r"-?[0-9]{1,20}")


@dataclass(frozen=True)
class Option:
    name: str
    pointer: str  # into the body
    help: str
    read: Callable[[str, str], Any] = lambda _option, text: text
    argument: Mapping[str, Any] | None = None  # for argparse, besides

    @property
    def dest(self) -> str:
        return "body_" + self.name.replace("-", "_")


def _whole(option: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise InvalidRun(option, f"--{option} {shown(text)} is no whole number.")
    return int(text)


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRun(option, f"--{option} {shown(text)} is no number.") from None


def _seconds(option: str, text: str) -> int:
    return int(duration_of(option, text).total_seconds())


def _moment(option: str, text: str) -> str:
    return moment_of(option, text, is_end=option == "end").astimezone(UTC).isoformat()


def parsed_json(option: str, text: str) -> Any:
    """JSON as it stands there, or from a file (@name) or the standard input (-)."""
    said = text
    if text == "-" or text.startswith("@"):
        said = read_text("-" if text == "-" else text[1:])
    try:
        return json.loads(said)
    except (ValueError, RecursionError) as error:
        remedy = "quote it for the shell, such as '{\"tenant\": 7}'"
        raise InvalidRun(option, f"--{option} is no JSON ({error}); {remedy}.") from None


def read_text(source: str) -> str:
    """A file, or the standard input (-)."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        refuse(f"{source} cannot be read: {reason}.")


def _words(names: Any) -> dict[str, Any]:
    return {"type": str.lower, "choices": [str(name).lower() for name in names], "metavar": None}


OPTIONS = (
    Option("task", "target/task", "The Celery task to run, by its registered name."),
    Option("url", "target/http/url", "The URL to call in place of a task."),
    Option("method", "target/http/method", "Of the request; POST if not given.", lambda _, text: text.upper()),
    Option("args", "args", "Positional arguments: a JSON list, or @file.", parsed_json),
    Option("kwargs", "kwargs", "Named arguments: a JSON object, or @file.", parsed_json),
    Option("cron", "schedule/cron", "Five fields, or six with the seconds first, or an alias such as @hourly."),
    Option("timezone", "schedule/timezone", "Of the cron; UTC if not given."),
    Option("every", "schedule/every", "An interval: 90, 15m, 2h, 1d.", _seconds),
    Option("anchor", "schedule/anchor", "An interval keeps phase with this moment.", _moment),
    Option("once-at", "schedule/once/at", "A moment; in UTC without an offset.", _moment),
    Option("once-in", "schedule/once/delay", "So far from now: 90, 15m, 2h.", _seconds),
    Option("start", "schedule/start", "No fire before this moment.", _moment),
    Option("end", "schedule/end", "No fire after this moment; a date alone is meant whole.", _moment),
    Option("max-fires", "schedule/max_fires", "How often it fires in all.", _whole),
    Option("jitter", "schedule/jitter", "A fire comes up to so much later: 30, 5m.", _seconds),
    Option(
        "misfire", "schedule/misfire/policy", "Which fires older than the grace still run.", argument=_words(Misfire)
    ),
    Option("misfire-grace", "schedule/misfire/grace", "Fires that are at most so late all run.", _seconds),
    Option("misfire-limit", "schedule/misfire/limit", "With fire_all: how many of them.", _whole),
    Option("queue", "queue", "The queue whose workers run it."),
    Option("priority", "priority", "0 (low) to 9 (critical).", _whole),
    Option("max-attempts", "retry/max_attempts", "How often it is tried in all.", _whole),
    Option("backoff", "retry/backoff", "How the delay grows from one failure to the next.", argument=_words(Backoff)),
    Option("initial-delay", "retry/initial_delay", "Before the second attempt: 30, 5m.", _seconds),
    Option("max-delay", "retry/max_delay", "No delay is longer.", _seconds),
    Option("retry-jitter", "retry/jitter", "The share of a delay that may fall away, 0 to 1.", _number),
    Option("max-lost", "max_lost", "Given up at so many lost workers.", _whole),
    Option("timeout", "timeout", "How long an attempt may take: 90, 15m.", _seconds),
    Option("stop-grace", "stop_grace", "How long after being asked to stop it is killed.", _seconds),
    Option("overlap", "overlap", "What happens while the previous one still runs.", argument=_words(Overlap)),
    Option("max-concurrency", "max_concurrency", "How many may run at once.", _whole),
    Option("owner", "owner", "Whose job it is: a label, and a filter."),
)
_OF_POINTER = {f"/{option.pointer}": (f"--{option.name}", option.dest) for option in OPTIONS}
_OF_POINTER |= {"/tags": ("--tag", "tag"), "/key": ("KEY", "key")}


CALLED_HERE = {
    '"lives_elsewhere": true in the target': "--lives-elsewhere",
    "A target is one of task and http": "A job runs one of --task and --url",
    "url is missing": "--url is missing",
    "A schedule is one of cron, every, once": "A schedule is one of --cron, --every, --once-at and --once-in",
    "timezone belongs to cron": "--timezone belongs to --cron",
    "anchor belongs to every": "--anchor belongs to --every",
    'use "every" in place of "cron"': "use --every in place of --cron",
    "Say when: at or delay": "Say when: --once-at or --once-in",
    "pause, resume and DELETE do": "`jobs pause`, `jobs resume` and `jobs archive` do",
}


def option_of(pointer: str, asked: Asked) -> str:
    """The option that says this place of the body; or else the place, as the file has it."""
    option, dest = _OF_POINTER.get(pointer, ("", ""))
    is_of_file = asked["file"] is not None and (not dest or asked[dest] is None)
    return pointer.lstrip("/").replace("/", ".") if is_of_file or not option else option


def add(parser: ArgumentParser) -> None:
    for option in OPTIONS:
        metavar = option.name.replace("-", "_").upper()
        more = {"metavar": metavar, **(option.argument or {})}
        parser.add_argument(f"--{option.name}", dest=option.dest, help=option.help, **more)
    parser.add_argument(
        "--lives-elsewhere", action="store_true", help="The task is in another codebase: do not look for it here."
    )
    parser.add_argument(
        "--keep-result",
        action=BooleanOptionalAction,
        default=None,
        help="Keep the result for Celery's AsyncResult, too.",
    )
    parser.add_argument("--tag", action="append", metavar="TAG", help="A label; may be said several times.")
    parser.add_argument(
        "--file",
        metavar="FILE",
        help="Read the definition from YAML or JSON (- for the standard input), as `jobs export` writes one; what "
        "options say goes before it.",
    )


@dataclass(frozen=True)
class SaidHere:
    """What a file and the options say, not checked yet."""

    file: dict[str, Any]
    options: dict[str, Any]

    def body(self, target: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The options over the file, or over the target that the job has."""
        said = dict(self.options)
        if "target" in said:
            said["target"] = _target_over(self.file.get("target", target), said["target"])
        return bodies.merged(self.file, said)


def said_in(asked: Asked) -> SaidHere:
    said: dict[str, Any] = {}
    for option in OPTIONS:
        text = asked[option.dest]
        if text is not None:
            _put(said, option.pointer.split("/"), option.read(option.name, text))
    if asked["lives_elsewhere"]:
        _put(said, ["target", "lives_elsewhere"], True)
    if asked["keep_result"] is not None:
        said["keep_result"] = asked["keep_result"]
    if asked["tag"] is not None:
        said["tags"] = asked["tag"]
    return SaidHere(_from_file(asked["file"]) if asked["file"] else {}, said)


def _target_over(before: Any, said: Mapping[str, Any]) -> dict[str, Any]:
    """Another method or url of the same request; a task in place of a request is another target."""
    if not isinstance(before, Mapping) or ("http" in before) != ("http" in said):
        return dict(said)
    after = {**before, **said}
    if isinstance(before.get("http"), Mapping) and "http" in said:
        after["http"] = {**before["http"], **said["http"]}
    return after


def _put(body: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = body.get(name)
        body[name] = inner if isinstance(inner, dict) else {}
        body = body[name]
    body[path[-1]] = value


def _from_file(source: str) -> dict[str, Any]:
    read = read_yaml(source)
    if not isinstance(read, dict):
        refuse(f"{source} does not hold one definition: write names and values, as `jobs show KEY --json` does.")
    return read


def read_yaml(source: str) -> Any:
    """YAML, of which JSON is a part."""
    try:
        return _plain(yaml.load(read_text(source), Loader=_Loader))
    except RecursionError:
        refuse(f"{source} is nested too deeply; keep it flatter.")
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f" in line {place.line + 1}" if place else ""
        refuse(f"{source} is no YAML{where}: {getattr(error, 'problem', None) or error}.")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """C's where it is there, which is ten times as fast. A name that stands twice is refused, not lost."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for name, _ in node.value:
            if name.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the name {name.value[:40]!r} stands twice", name.start_mark
                )
            seen.add(name.value)
        return super().construct_mapping(node, deep=deep)


def _plain(value: Any) -> Any:
    """As JSON says it: YAML reads a bare 2026-11-01 as a date, and a body wants text."""
    match value:
        case dict():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case None | bool() | int() | float() | str():
            return value
    return str(value)
