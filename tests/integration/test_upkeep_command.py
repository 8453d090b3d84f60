"""`./onbeat upkeep`: the duties of the beats, done once by hand."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from beat.upkeep import DUTIES
from executions.clock import database_now
from executions.states import State
from tests.making import a_job, claimed, planned
from tests.rows import Rows, everything, of

# With a broker of its own: one of the duties takes what lies in the dead-letter queue.
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker")]

NAMES = [duty.name for duty in DUTIES]


def upkeep(*words: str) -> list[str]:
    output = StringIO()
    call_command("upkeep", *words, stdout=output)
    return output.getvalue().splitlines()


def a_silent_worker() -> Rows:
    """Its execution is RUNNING, and was last heard of an hour ago."""
    then = database_now() - timedelta(hours=1)
    claimed(planned(a_job(now=then, key="silent"), then), now=then)
    return everything()


def test_all_duties_are_done_and_each_tells_how_much_it_did() -> None:
    a_silent_worker()
    lines = upkeep()
    assert [line.split()[0] for line in lines] == NAMES
    assert lines[0].split(maxsplit=2) == ["rescue", "1", "ends attempts whose worker went silent; they run again"]


def test_only_the_duty_that_is_named_is_done() -> None:
    before = a_silent_worker()
    assert [line.split()[:2] for line in upkeep("pauses")] == [["pauses", "0"]]
    assert everything() == before
    assert [line.split()[:2] for line in upkeep("rescue")] == [["rescue", "1"]]


def test_a_list_tells_what_there_is_and_does_nothing() -> None:
    before = a_silent_worker()
    lines = upkeep("--list")
    assert [line.split()[0] for line in lines] == NAMES
    assert lines[1].split(maxsplit=4) == [
        *("lost-messages", "every", "15", "s"),
        "publishes executions again whose message the broker lost",
    ]
    assert everything() == before


def test_json_is_one_object_with_the_count_of_each_duty() -> None:
    a_silent_worker()
    (line,) = upkeep("rescue", "pauses", "--json")
    assert json.loads(line) == {"rescue": 1, "pauses": 0}


def test_a_list_as_json_is_one_object_as_well() -> None:
    (line,) = upkeep("--list", "--json")
    told = json.loads(line)
    assert list(told) == NAMES
    assert told["pauses"] == {"every_seconds": 1.0, "does": "resumes jobs whose pause was set to end"}


def test_an_unknown_duty_is_refused_with_the_names_there_are() -> None:
    before = a_silent_worker()
    with pytest.raises(CommandError) as refused:
        upkeep("rescue", "reskue")
    assert str(refused.value) == f"There is no duty 'reskue'. Name one or more of: {', '.join(NAMES)}."
    assert everything() == before


def test_duties_may_be_named_in_any_order_and_twice() -> None:
    assert [line.split()[0] for line in upkeep("pauses", "rescue", "pauses")] == ["rescue", "pauses"]


def test_what_the_command_rescued_runs_again() -> None:
    a_silent_worker()
    upkeep("rescue")
    from jobs.models import Job

    (execution,) = of(Job.objects.get(key="silent"))
    assert (execution.state, execution.attempt) == (State.SCHEDULED, 2)


def test_on_a_database_that_is_not_migrated_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executions.commands.missing_migrations", lambda: 2)
    with pytest.raises(CommandError, match="2 migrations are missing; run"):
        upkeep()


def test_without_a_database_it_says_so_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OperationalError("connection refused")

    monkeypatch.setattr("executions.commands.missing_migrations", refuse)
    with pytest.raises(CommandError, match="The database does not answer; is it running"):
        upkeep()
