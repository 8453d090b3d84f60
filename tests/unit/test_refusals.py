"""A refusal names the field, the value and the remedy, in one sentence that a person can be shown.

None of these tests may use the database: pytest-django fails any that tries.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from executions.retry import RetryPolicy
from jobs import targets
from jobs.definitions import create
from jobs.models import Job
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidDefinition, InvalidRun, InvalidSchedule, NoSuchJob, Refused, StaleVersion
from jobs.runs import Wanted, run_many
from jobs.specification import Specification

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


def refusal_by(act: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as refusal:
        act()
    return refusal.value


def created(**given: Any) -> Callable[[], object]:
    return lambda: create(**{"key": "report", "task": "onbeat.echo", "now": NOON, **given})


def asked(**given: Any) -> Callable[[], object]:
    job = Job(key="report", task="onbeat.echo")
    return lambda: run_many(job, [Wanted(**given)], now=NOON)


def cron(expression: str, zone: str = "UTC") -> Callable[[], object]:
    return lambda: Cron(expression, zone)


# What was asked; the field; what the sentence names; what it advises.
TABLE: list[tuple[Callable[[], object], str, str, str]] = [
    (cron("61 * * * *"), "cron", "minute '61'", "0 to 59"),
    (cron("0 24 * * *"), "cron", "hour '24'", "0 to 23"),
    (cron("0 0 32 * *"), "cron", "day of month '32'", "1 to 31, or L for the last day"),
    (cron("0 0 1 13 *"), "cron", "month '13'", "1 to 12 or jan to dec"),
    (cron("0 0 * * 8"), "cron", "weekday '8'", "0 to 7 (0 and 7 are Sunday) or sun to sat"),
    (cron("0 0 * * mun"), "cron", "weekday 'mun'", "sun to sat"),
    (cron("60 0 0 * * *"), "cron", "second '60'", "0 to 59"),
    (cron("*/90 * * * *"), "cron", "minute '*/90'", "use an interval for every 90 minutes"),
    (cron("0 */24 * * *"), "cron", "hour '*/24'", "use an interval for every 24 hours"),
    (cron("*/0 * * * *"), "cron", "'*/0'", "a step must be 1 to 59"),
    (cron("0 0 * * 5#6"), "cron", "'5#6'", "# takes 1 to 5"),
    (cron("H(5-70) * * * *"), "cron", "'h(5-70)'", "must lie within 0 to 59"),
    (cron("* * *"), "cron", "'* * *' must have 5 fields", "not 3"),
    (cron(""), "cron", "'' must have 5 fields", "not 0"),
    (cron("@fortnightly"), "cron", "'@fortnightly'", "there are @hourly"),
    (cron("* " * 200), "cron", "200 characters", "not more"),
    (
        cron("0 0 30 2 *"),
        "cron",
        "'0 0 30 2 *' never fires",
        "at most 29 days and the day of month is 30; L is the last",
    ),
    (cron("0 0 31 4,6,9,11 *"), "cron", "day of month is 31", "L is the last day of a month"),
    (cron("0 3 * * *", "Europe/Berlim"), "timezone", "'Europe/Berlim'", "did you mean 'Europe/Berlin'"),
    (cron("0 3 * * *", "berlin"), "timezone", "'berlin'", "'Europe/Berlin'"),
    (cron("0 3 * * *", "CEST+2"), "timezone", "'CEST+2'", "use an IANA name, mostly that of a city"),
    (cron("0 3 * * *", "../etc/passwd"), "timezone", "'../etc/passwd'", "IANA name"),
    (
        lambda: Within(Cron("* * * * *"), start=NOON, end=NOON - timedelta(days=1)),
        "end",
        "2026-06-14T12:00:00+00:00 comes before the start 2026-06-15T12:00:00+00:00",
        "choose a later end or an earlier start",
    ),
    (lambda: Within(Cron("* * * * *"), start=NOON.replace(tzinfo=None)), "start", "2026-06-15T12:00:00", "+00:00"),
    (lambda: Every(0, NOON), "every", "not 0 seconds", "1 second to 10 years"),
    (lambda: Every(60, NOON.replace(tzinfo=None)), "anchor", "2026-06-15T12:00:00", "add one, such as +00:00"),
    (lambda: Once(NOON.replace(tzinfo=None)), "once", "2026-06-15T12:00:00", "add one, such as +00:00"),
    (lambda: Once(NOON.replace(year=1969)), "once", "1969", "between the years 1970 and 9900"),
    (created(schedule=Once(NOON)), "schedule", "never fires after now", "choose a date that will come"),
    (created(task="onbeat.ecko"), "task", "'onbeat.ecko'", "did you mean 'onbeat.echo'"),
    (created(task="nothing.like.it"), "task", "'nothing.like.it'", "task_lives_elsewhere=True"),
    (created(task="celery.group"), "task", "'celery.group'", "choose a task of an application"),
    (created(task="celery.x", task_lives_elsewhere=True), "task", "'celery.x'", "choose a task of an application"),
    (created(kwargs={"a": "x" * 70_000}), "kwargs", "take 70011 bytes", "store large data elsewhere"),
    (created(prioritty=5), "prioritty", "'prioritty'", "did you mean 'priority'"),
    (created(zzz=5), "zzz", "'zzz'", "there are key, task, http, schedule"),
    (created(max_fires=5), "max_fires", "max_fires", "needs a schedule"),
    (asked(delay=timedelta(seconds=-5)), "delay", "The delay", "0 or more; leave it out to run now"),
    (asked(run_at=NOON - timedelta(days=1)), "run_at", "2026-06-14T12:00:00+00:00", "leave it out to run now"),
    (asked(run_at=NOON.replace(tzinfo=None)), "run_at", "2026", "such as +00:00"),
    (asked(delay=timedelta(days=100_000)), "delay", "100000 days", "ONBEAT_JOBS_HORIZON_DAYS"),
    (asked(run_key="a\nb"), "run_key", r"'a\nb'", "up to 200 printable characters"),
    (asked(kwargs={"a": "x" * 70_000}), "kwargs", "take 70011 bytes", "pass a reference"),
    (asked(priority=12), "priority", "not 12", "0 (low) to 9 (critical)"),
]


@pytest.mark.parametrize(("act", "field", "value", "remedy"), TABLE, ids=[f"{row[1]}: {row[2]}"[:50] for row in TABLE])
def test_a_refusal_names_the_field_the_value_and_the_remedy(
    act: Callable[[], object], field: str, value: str, remedy: str
) -> None:
    refusal = refusal_by(act)
    assert refusal.field == field
    assert value in str(refusal)
    assert remedy in str(refusal)


@pytest.mark.parametrize("act", [row[0] for row in TABLE], ids=[f"{row[1]}: {row[2]}"[:50] for row in TABLE])
def test_a_refusal_is_one_line_that_ends_as_a_sentence_does(act: Callable[[], object]) -> None:
    text = str(refusal_by(act))
    assert text.isprintable()
    assert text[0].isupper() or text[0] in "'" or text.split()[0] in Specification.__dataclass_fields__ | {"run_at": 1}
    assert text.endswith((".", "?"))
    assert len(text) < 600


def test_a_negative_delay_is_told_as_it_was_meant() -> None:
    """Python writes five seconds less than nothing as a day less and much more."""
    assert "-1 day" not in str(refusal_by(asked(delay=timedelta(seconds=-5))))


def test_a_task_that_lives_elsewhere_is_taken_when_the_caller_says_so() -> None:
    refusal = refusal_by(created(task="other.codebase", task_lives_elsewhere=True, schedule=Once(NOON)))
    assert refusal.field == "schedule"


@pytest.mark.parametrize(
    ("allowed", "task", "is_allowed"),
    [
        (["*"], "onbeat.echo", True),
        (["onbeat.*"], "onbeat.echo", True),
        (["reports.*", "onbeat.echo"], "onbeat.echo", True),
        (["reports.*"], "onbeat.echo", False),
        (["onbeat.echo"], "onbeat.echo2", False),
        (["ONBEAT.*"], "onbeat.echo", False),
        ([], "onbeat.echo", False),
        (["*"], "celery.chord", False),
        (["celery.*"], "celery.chord", False),
    ],
)
@pytest.mark.parametrize("lives_elsewhere", [False, True])
def test_a_setting_says_which_tasks_may_be_targets_and_celerys_own_never_are(
    allowed: list[str], task: str, is_allowed: bool, lives_elsewhere: bool, settings: Settings
) -> None:
    settings.ONBEAT_JOBS_ALLOWED_TASKS = allowed
    if is_allowed:
        targets.check(task, lives_elsewhere=lives_elsewhere)
        return
    with pytest.raises(InvalidDefinition, match=task) as refusal:
        targets.check(task, lives_elsewhere=lives_elsewhere)
    assert refusal.value.field == "task"
    if not task.startswith("celery."):
        assert "ONBEAT_JOBS_ALLOWED_TASKS" in str(refusal.value)


def test_every_kind_of_refusal_can_be_caught_as_one() -> None:
    kinds = [InvalidDefinition("f", "p"), InvalidRun("f", "p"), InvalidSchedule("f", "p")]
    kinds += [StaleVersion(key="k", read=1, current=2), NoSuchJob("k", [])]  # type: ignore[list-item]
    for refusal in kinds:
        assert isinstance(refusal, Refused)
        assert isinstance(refusal, ValueError)
        assert refusal.field


def test_an_unknown_job_is_told_with_up_to_three_near_ones() -> None:
    assert str(NoSuchJob("a", ["ab", "ac"])) == "There is no job 'a'; did you mean 'ab' or 'ac'?"
    assert str(NoSuchJob("a", [])) == "There is no job 'a'; create it first, or look for its key."


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "act",
    [
        created(key=LONG),
        created(task=LONG),
        created(queue=LONG),
        created(owner=LONG),
        created(tags=[LONG]),
        created(retry=RetryPolicy(retry_on=(LONG + " ",))),
        created(retry=RetryPolicy(backoff=LONG)),  # type: ignore[arg-type]
        created(retry=RetryPolicy(jitter=LONG)),  # type: ignore[arg-type]
        created(priority=10**4000),
        created(priority=10**5000),
        created(max_lost=-(10**5000)),
        created(tags=[10**5000]),
        created(retry=RetryPolicy(cap_seconds=10**5000)),
        created(**{LONG: 1}),
        asked(run_key=LONG),
        asked(priority=LONG),
        asked(priority=10**5000),
        asked(delay=LONG),
        asked(run_at=LONG),
        cron(LONG),
        cron("0 3 * * *", LONG),
        lambda: Every(10**5000, NOON),
        lambda: (_ for _ in ()).throw(NoSuchJob(LONG, [])),
    ],
    ids=lambda act: "",
)
def test_a_refusal_stays_readable_however_long_the_value_is(act: Callable[[], object]) -> None:
    assert len(str(refusal_by(act))) < 1000
