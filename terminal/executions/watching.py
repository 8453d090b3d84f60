"""Watch executions as they go: a line for each change of state."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from rich.text import Text

from api.executions.answers import in_list
from api.executions.named import id_of
from executions import why, words
from executions.clock import database_now
from executions.models import Execution
from executions.states import State
from executions.storable import stored_in_a_line
from executions.watching import changed_at
from terminal.executions.filters import filter_arguments, said_in, sought_by
from terminal.executions.following import exit_of, follow, wait_until_over
from terminal.frame import Asked, Exit, Told, Verb, refuse
from terminal.paper import Paper, toned

_WIDEST_STATE = max(map(len, State))


class Watch(Verb):
    name = "watch"
    does = "watch executions: a line for each change of state, until Ctrl-C"
    explains = """\
First what runs or is about to, then each change. An execution that is named is watched until it is over: then the
exit code is 0 if it succeeded, 1 if not, and 3 if it was not over within --seconds. Looks twice a second, so that
states that pass in between are not told. --json is one JSON document a line here, each as `executions list` has it,
with `at` and `why`."""
    examples = (
        "executions watch",
        "executions watch --job billing.daily --until-over",
        "executions watch 019a3f52-8c1e-7d6b-9a40-2f6c1d0e8b77 --seconds 60",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", nargs="?", metavar="ID", help="Of one execution, until it is over.")
        filter_arguments(parser, has_time=False)
        parser.add_argument("--seconds", type=float, metavar="N", help="For so long.")
        parser.add_argument("--until-over", action="store_true", help="Until nothing that was seen is still to come.")

    def act(self, asked: Asked) -> Told | None:
        seconds = asked["seconds"]
        if seconds is not None and not 0 <= seconds < 1e9:
            refuse(f"--seconds must be a number from 0 on, not {seconds:g}.")
        if asked["id"] is None:
            return self._watch(asked, seconds)
        if said_in(asked, now=database_now()):
            refuse("Name one execution, or say which by a filter; not both.")
        execution = wait_until_over(id_of(asked["id"]), timeout=seconds, on_change=lambda row: tell(row, asked.paper))
        return _end(exit_of(execution))

    def _watch(self, asked: Asked, seconds: float | None) -> Told | None:
        sought = sought_by(asked, now=database_now())
        if asked.paper.is_terminal and not asked.paper.is_json:
            asked.paper.aside("Watching; Ctrl-C ends it.")
        for execution in follow(sought, seconds=seconds, until_over=asked["until_over"]):
            tell(execution, asked.paper)
        return None


def _end(code: Exit) -> Told | None:
    """Everything was printed on the way; what is left to say is how it ended."""
    if code is not Exit.DONE:
        raise SystemExit(code)
    return None


def tell(execution: Execution, paper: Paper) -> None:
    """One line, at once: for a person, or as JSON."""
    now = database_now()
    paper.line(_line(execution, now), _data(execution, now))


def _data(execution: Execution, now: datetime) -> dict[str, Any]:
    return {
        "at": changed_at(execution, now=now),
        **in_list(execution),
        "why": why.in_words(execution, now=now),
    }


def _line(execution: Execution, now: datetime) -> Text:
    line = Text(f"{words.clock(changed_at(execution, now=now))}  ")
    line.append_text(toned(execution.state))
    line.append(" " * (_WIDEST_STATE - len(execution.state)))
    line.append(f"  {execution.job.key}", style="bold")
    line.append(f"  {execution.pk}  attempt {execution.attempt} of {execution.max_attempts}")
    if because := _because(execution, now):
        line.append(f"  {because}")
    return line


def _because(execution: Execution, now: datetime) -> str:
    """In a few words; `executions show` has the sentence."""
    match State(execution.state):
        case State.SCHEDULED:
            parts = [execution.reason]
            parts += [f"comes {words.away(execution.available_at, now=now)}"] if execution.available_at > now else []
            return ", ".join(filter(None, parts))
        case State.QUEUED:
            return f"in {execution.queue}"
        case State.RUNNING:
            return f"on {execution.worker}"
        case State.SUCCEEDED:
            return f"took {words.duration(_took(execution))}"
        case State.DEAD:
            return stored_in_a_line(execution.error) or execution.reason
    return execution.reason


def _took(execution: Execution) -> Any:
    started_at, finished_at = execution.started_at, execution.finished_at
    return None if started_at is None or finished_at is None else finished_at - started_at
