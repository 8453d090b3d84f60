"""A definition that cannot work is refused with its field before the database is touched.

None of these tests may use the database: pytest-django fails any that tries.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from executions.queues import DEAD_LETTERS
from executions.retry import RetryPolicy
from executions.states import Overlap
from jobs.definitions import InvalidDefinition, create
from jobs.misfires import Misfire
from jobs.recurrence import Cron, Once
from jobs.specification import Specification


def refusal_of(now: datetime, **given: Any) -> InvalidDefinition:
    with pytest.raises(InvalidDefinition) as refusal:
        create(**{"key": "report", "task": "onbeat.echo", "now": now, **given})
    return refusal.value


@pytest.mark.parametrize("key", ["", " ", "-a", ".a", "a b", "a\n", "ä", "a,b", "x" * 201])
def test_a_key_that_cannot_stand_in_a_url_is_refused(key: str, noon: datetime) -> None:
    refusal = refusal_of(noon, key=key)
    assert refusal.field == "key"
    assert str(refusal) == (
        f"The key {key[:80]!r} must be 1 to 200 letters, digits and . _ : @ / - and start with a letter or digit."
    )


@pytest.mark.parametrize(
    "task",
    [
        "",
        "x" * 256,
        " ",
        "jobs.demo hello",
        " jobs.demo.hello",
        "jobs.demo.hello\n",
        "a\tb",
        "a\0b",
        "a\ud800b",
        "jöbs",
    ],
    ids=lambda task: ascii(task[:20]),
)
def test_a_task_that_cannot_be_the_name_of_one_is_refused(task: str, noon: datetime) -> None:
    refusal = refusal_of(noon, task=task)
    assert refusal.field == "task"
    assert str(refusal) == (
        f"The task {task[:80]!r} must be the registered name of a Celery task, up to 255 characters."
    )


@pytest.mark.parametrize("queue", ["", "a b", "a/b", "-a", "x" * 101, DEAD_LETTERS])
def test_a_queue_that_cannot_be_is_refused(queue: str, noon: datetime) -> None:
    refusal = refusal_of(noon, queue=queue)
    assert refusal.field == "queue"
    assert (
        str(refusal) == f"The queue {queue[:80]!r} must be 1 to 100 letters, digits and . _ - and not {DEAD_LETTERS!r}."
    )


@pytest.mark.parametrize("priority", [-1, 10])
def test_a_priority_outside_0_to_9_is_refused(priority: int, noon: datetime) -> None:
    refusal = refusal_of(noon, priority=priority)
    assert refusal.field == "priority"
    assert str(refusal) == f"The priority must be 0 (low) to 9 (critical), not {priority}."


@pytest.mark.parametrize("max_attempts", [0, -1, 10_001, 2**31])
def test_less_than_one_attempt_or_more_than_ten_thousand_is_refused(max_attempts: int, noon: datetime) -> None:
    refusal = refusal_of(noon, retry=RetryPolicy(max_attempts=max_attempts))
    assert refusal.field == "retry.max_attempts"
    assert str(refusal) == f"retry.max_attempts must be 1 to 10000, not {max_attempts}."


def circle() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def given_as(field: str, value: object) -> dict[str, Any]:
    return {"args": [1, value]} if field == "args" else {"args": [1], "kwargs": {"value": value}}


@pytest.mark.parametrize("field", ["args", "kwargs"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1, 2}, "Object of type set is not JSON serializable."),
        (b"bytes", "Object of type bytes is not JSON serializable."),
        (object(), "Object of type object is not JSON serializable."),
        (float("nan"), "Out of range float values are not JSON compliant"),
        (float("inf"), "Out of range float values are not JSON compliant"),
        ("a\ud800b", "'utf-8' codec can't encode character '\\ud800' in position"),
        ({"\udfff": 1}, "'utf-8' codec can't encode character '\\udfff' in position"),
        ({(1, 2): 3}, "keys must be str, int, float, bool or None, not tuple."),
        (10**5000, "Exceeds the limit"),
        (circle(), "Circular reference detected."),
        (nested(100_000), "maximum recursion depth exceeded"),
    ],
    ids=[
        *("set", "bytes", "object", "nan", "inf", "surrogate", "surrogate as a name"),
        *("pair as a name", "5001 digits", "circle", "deep"),
    ],
)
def test_arguments_that_are_not_json_are_refused_where_they_stand(
    field: str, value: object, problem: str, noon: datetime
) -> None:
    refusal = refusal_of(noon, **given_as(field, value))
    assert refusal.field == field
    assert str(refusal).startswith(f"The {field} must be plain JSON: {problem}")
    assert str(refusal).endswith(".")


@pytest.mark.parametrize("field", ["args", "kwargs"])
@pytest.mark.parametrize("value", ["\0", "a\0b", ["\0"], {"a\0": 1}, "\\\0"], ids=ascii)
def test_arguments_with_a_nul_are_refused_where_it_stands(field: str, value: object, noon: datetime) -> None:
    refusal = refusal_of(noon, **given_as(field, value))
    assert refusal.field == field
    assert str(refusal) == f"The {field} must not hold a NUL character."


def test_a_keyword_name_with_a_nul_is_refused(noon: datetime) -> None:
    refusal = refusal_of(noon, kwargs={"a\0": 1})
    assert (refusal.field, str(refusal)) == ("kwargs", "The kwargs must not hold a NUL character.")


@pytest.mark.parametrize("name", [1, 1.5, True, None])
def test_a_keyword_name_that_is_not_text_is_refused(name: object, noon: datetime) -> None:
    refusal = refusal_of(noon, kwargs={"fine": 1, name: 2})
    assert (refusal.field, str(refusal)) == ("kwargs", "The names in the kwargs must be text.")


@pytest.mark.parametrize("given", [{"kwargs": {"a": "x" * 40}}, {"args": ["x" * 40]}], ids=["kwargs", "args"])
def test_arguments_above_the_limit_are_refused_with_both_sizes(given: dict[str, Any], noon: datetime, settings) -> None:
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 40
    assert "bytes and the limit is 40; store large data elsewhere and pass a reference." in str(
        refusal_of(noon, **given)
    )


def test_by_default_64_kilobytes_of_arguments_are_the_limit(noon: datetime, settings) -> None:
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 64 * 1024
    around = len("[]") + len('{"a": ""}')
    refusal = refusal_of(noon, kwargs={"a": "x" * (64 * 1024 - around + 1)})
    assert str(refusal).startswith("The arguments take 65537 bytes and the limit is 65536;")


@pytest.mark.parametrize("letter", ["x", "ä", "✓", "😀"])
def test_the_size_of_arguments_is_that_of_their_utf_8(letter: str, noon: datetime, settings) -> None:
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 40
    size = len("[]") + len('{"a": ""}') + 40 * len(letter.encode())
    assert str(refusal_of(noon, kwargs={"a": 40 * letter})).startswith(f"The arguments take {size} bytes ")


@pytest.mark.parametrize(
    "given",
    [
        {"key": "x" * 200},
        {"task": "x" * 255, "task_lives_elsewhere": True},
        {"queue": "x" * 100},
        {"retry": RetryPolicy(max_attempts=1)},
        {"retry": RetryPolicy(max_attempts=10_000)},
    ],
)
def test_a_value_at_its_limit_is_not_what_is_refused(given: dict[str, Any], noon: datetime) -> None:
    assert refusal_of(noon, schedule=Once(noon), **given).field == "schedule"


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(seconds=-1), timedelta(days=-400)])
def test_a_schedule_whose_only_fire_has_passed_is_refused(delay: timedelta, noon: datetime) -> None:
    refusal = refusal_of(noon, schedule=Once(noon + delay))
    assert refusal.field == "schedule"
    assert str(refusal).startswith("The schedule (Once, on ")
    assert str(refusal).endswith(" UTC) never fires after now; choose a date that will come.")


def test_a_schedule_that_never_fires_is_refused(noon: datetime) -> None:
    never = Cron("0 0 */30 * 1#3")  # a third Monday is never the 1st or the 31st
    assert refusal_of(noon, schedule=never).field == "schedule"


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("key", 5, "key must be text, not int."),
        ("task", None, "task must be text, not NoneType."),
        ("queue", b"default", "queue must be text, not bytes."),
        (
            "schedule",
            "0 3 * * *",
            "schedule must be a Cron, Every, Once or Within, not str. A cron expression is given as Cron('0 3 * * *').",
        ),
        ("args", "abc", "args must be a list, not str."),
        ("kwargs", ["a"], "kwargs must be a mapping, not list."),
        ("priority", 5.5, "priority must be a whole number, not float."),
        ("priority", True, "priority must be a whole number, not bool."),
        ("retry", 3, "retry must be a RetryPolicy, not int."),
        ("overlap", 1, "overlap must be text, not int."),
        ("overlap", "SKIPP", "overlap must be one of ALLOW, SKIP, QUEUE, CANCEL_PREVIOUS, not 'SKIPP'."),
        ("misfire", None, "misfire must be text, not NoneType."),
        ("misfire", "skip", "misfire must be one of SKIP, FIRE_ONCE, FIRE_ALL, not 'skip'."),
        ("misfire_limit", 2.0, "misfire_limit must be a whole number, not float."),
        ("jitter_seconds", True, "jitter_seconds must be a whole number, not bool."),
        ("jitter_seconds", timedelta(seconds=5), "jitter_seconds must be a whole number, not timedelta."),
        ("max_concurrency", "1", "max_concurrency must be a whole number, not str."),
        ("tags", "a", "tags must be a list, not str."),
    ],
)
def test_a_value_of_another_type_is_refused(field: str, value: object, sentence: str, noon: datetime) -> None:
    refusal = refusal_of(noon, **{field: value})
    assert (refusal.field, str(refusal)) == (field, sentence)


@pytest.mark.parametrize("value", [{"__type__": "x", "__value__": 1}, [{"a": [{"__type__": "x", "__value__": 1}]}]])
def test_an_object_that_a_message_would_turn_into_something_else_is_refused(value: object, noon: datetime) -> None:
    assert refusal_of(noon, args=[value]).field == "args"
    assert "__type__ and __value__" in str(refusal_of(noon, kwargs={"value": value}))


@pytest.mark.parametrize(
    ("given", "field", "sentence"),
    [
        ({"max_attempts": 2.5}, "max_attempts", "retry.max_attempts must be a whole number, not 2.5."),
        ({"max_attempts": True}, "max_attempts", "retry.max_attempts must be a whole number, not True."),
        ({"initial_seconds": -1}, "initial_seconds", "retry.initial_seconds must be 0 to 2592000, not -1."),
        ({"initial_seconds": "5"}, "initial_seconds", "retry.initial_seconds must be a whole number, not '5'."),
        ({"cap_seconds": 2592001}, "cap_seconds", "retry.cap_seconds must be 0 to 2592000, not 2592001."),
        ({"cap_seconds": None}, "cap_seconds", "retry.cap_seconds must be a whole number, not None."),
        ({"jitter": 1.5}, "jitter", "retry.jitter must be 0 to 1, not 1.5."),
        ({"jitter": float("nan")}, "jitter", "retry.jitter must be 0 to 1, not nan."),
        ({"jitter": "0.5"}, "jitter", "jitter must be a number from 0 to 1, not '0.5'."),
        ({"backoff": "NEVER"}, "backoff", "backoff must be one of EXPONENTIAL, LINEAR, FIXED, not 'NEVER'."),
        ({"retry_on": ("a b",)}, "retry_on", "retry_on must name error classes, such as 'ValueError', not 'a b'."),
        ({"give_up_on": (5,)}, "give_up_on", "give_up_on must name error classes, such as 'ValueError', not 5."),
    ],
    ids=str,
)
def test_a_retry_policy_that_cannot_work_is_refused_by_its_field(
    given: dict[str, Any], field: str, sentence: str, noon: datetime
) -> None:
    refusal = refusal_of(noon, retry=RetryPolicy(**given))
    assert (refusal.field, str(refusal)) == (f"retry.{field}", sentence)


@pytest.mark.parametrize(
    ("field", "value", "limits"),
    [
        ("max_lost", 0, "1 to 10000"),
        ("max_lost", 10_001, "1 to 10000"),
        ("max_concurrency", 0, "1 to 10000"),
        ("max_concurrency", -1, "1 to 10000"),
        ("max_fires", 0, "1 to 2147483647"),
        ("max_fires", 2**31, "1 to 2147483647"),
        ("misfire_grace_seconds", -1, "0 to 2147483647"),
        ("misfire_grace_seconds", 2**31, "0 to 2147483647"),
        ("misfire_limit", 0, "1 to 1000"),
        ("misfire_limit", 1001, "1 to 1000"),
        ("jitter_seconds", -1, "0 to 86400"),
        ("jitter_seconds", 86_401, "0 to 86400"),
    ],
)
def test_a_number_outside_its_limits_is_refused_with_them(field: str, value: int, limits: str, noon: datetime) -> None:
    refusal = refusal_of(noon, **{field: value})
    assert (refusal.field, str(refusal)) == (field, f"{field} must be {limits}, not {value}.")


@pytest.mark.parametrize("owner", ["x" * 201, "a\nb", "a\0b", "a\ud800"], ids=ascii)
def test_an_owner_that_cannot_be_shown_is_refused(owner: str, noon: datetime) -> None:
    refusal = refusal_of(noon, owner=owner)
    assert refusal.field == "owner"
    assert "up to 200 printable characters" in str(refusal)


@pytest.mark.parametrize("tag", ["", "a b", "-a", "x" * 51, "a\n", 5, None, ["a"]], ids=ascii)
def test_a_tag_that_cannot_be_a_filter_is_refused(tag: object, noon: datetime) -> None:
    refusal = refusal_of(noon, tags=["fine", tag])
    assert refusal.field == "tags"
    assert str(refusal).startswith(f"The tag {tag!r} must be 1 to 50 letters, digits and . _ : @ / -")


def test_more_than_20_tags_are_refused(noon: datetime) -> None:
    refusal = refusal_of(noon, tags=[f"t{number}" for number in range(21)])
    assert (refusal.field, str(refusal)) == ("tags", "A job may have 20 tags, not 21.")


@pytest.mark.parametrize(
    "given",
    [
        {"max_fires": 3},
        {"misfire_grace_seconds": 3},
        {"misfire": Misfire.SKIP},
        {"misfire_limit": 3},
        {"jitter_seconds": 3},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_only_a_schedule_has_needs_a_schedule(given: dict[str, Any], noon: datetime) -> None:
    (field,) = given
    refusal = refusal_of(noon, **given)
    assert refusal.field == field
    assert str(refusal) == f"{field} needs a schedule; a job without one runs only when asked."


@pytest.mark.parametrize(
    "given",
    [
        {"retry": RetryPolicy(initial_seconds=0, cap_seconds=0, jitter=0)},
        {"retry": RetryPolicy(initial_seconds=2592000, cap_seconds=2592000, jitter=1)},
        {"retry": RetryPolicy(retry_on=("ValueError", "my.app.Broken"), give_up_on=("KeyError",))},
        {"max_lost": 1, "max_concurrency": 1, "max_fires": 1, "misfire_grace_seconds": 0},
        {"max_lost": 10_000, "max_concurrency": 10_000, "max_fires": 2**31 - 1, "misfire_grace_seconds": 2**31 - 1},
        {"misfire_limit": 1, "jitter_seconds": 0},
        {"misfire_limit": 1000, "jitter_seconds": 86_400},
        *({"misfire": misfire} for misfire in Misfire),
        {"misfire": "SKIP"},
        {"owner": "x" * 200, "tags": ["x" * 50] * 20},
        {"owner": "Zoë’s team ✓", "tags": []},
        *({"overlap": overlap} for overlap in Overlap),
    ],
)
def test_a_policy_or_label_at_its_limit_is_not_what_is_refused(given: dict[str, Any], noon: datetime) -> None:
    assert refusal_of(noon, schedule=Once(noon), **given).field == "schedule"


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_PREVIOUS])
def test_an_overlap_policy_without_a_limit_means_one_at_a_time(overlap: Overlap) -> None:
    said = Specification(key="k", task="t", overlap=overlap)
    assert said.normalised().max_concurrency == 1
    assert Specification(key="k", task="t", overlap=overlap, max_concurrency=4).normalised().max_concurrency == 4
    assert Specification(key="k", task="t").normalised().max_concurrency is None
