"""`jobs create` and `jobs change`: each option says its place, a file is below the options, and refusals name them."""

import json
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from access.models import AuditEntry
from executions.clock import database_now
from jobs.models import Job, JobVersion
from jobs.recurrence import Cron
from tests.at_terminal import document, ended, refusal, typed
from tests.making import a_job
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]


@pytest.fixture
def job() -> Job:
    schedule = Cron("30 7 * * *", timezone="Europe/Berlin")
    return a_job(now=database_now(), key="billing.daily", schedule=schedule, tags=["mail"], timeout_seconds=90)


def create(*options: str) -> Any:
    return document("jobs", "create", "new", *options)


def change(*options: str) -> Any:
    return document("jobs", "change", "billing.daily", *options)


# ── Create ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_was_made_is_told_with_what_it_is() -> None:
    lines = typed("jobs", "create", "new", "--task", "onbeat.echo", "--cron", "30 7 * * 1-5", "--owner", "billing")
    assert lines[:3] == ["Made the job new.", "", "new"]
    facts = {line[:10].strip(): line[10:].strip() for line in lines[3:]}
    assert facts["state"] == "ACTIVE"
    assert facts["schedule"] == "Every weekday at 07:30, UTC"
    assert facts["next fire"].endswith(("h", "min", " s"))
    assert facts["attempts"] == "3, exponential from 30 s to 1 h"
    assert facts["misfire"] == "fire_once after 1 min"
    assert (facts["runs"], facts["owner"]) == ("onbeat.echo", "billing")


@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        (["--cron", "0 8 * * *", "--timezone", "Europe/Berlin"], "schedule/cron", "0 8 * * *"),
        (["--cron", "0 8 * * *", "--timezone", "Europe/Berlin"], "schedule/timezone", "Europe/Berlin"),
        (["--cron", "@hourly"], "schedule/cron", "@hourly"),
        (["--every", "90"], "schedule/every", 90),
        (["--every", "15m", "--anchor", "2026-01-01"], "schedule/anchor", "2026-01-01T00:00:00Z"),
        (["--once-at", "2090-01-01T10:00"], "schedule/once/at", "2090-01-01T10:00:00Z"),
        (["--once-at", "2090-01-01T10:00+02:00"], "schedule/once/at", "2090-01-01T08:00:00Z"),
        (["--every", "1h", "--start", "2090-01-01"], "schedule/start", "2090-01-01T00:00:00Z"),
        (["--every", "1h", "--end", "2090-01-01"], "schedule/end", "2090-01-01T23:59:59.999999Z"),
        (["--every", "1h", "--max-fires", "3"], "schedule/max_fires", 3),
        (["--every", "1h", "--jitter", "5m"], "schedule/jitter", 300),
        (["--every", "1h", "--misfire", "FIRE_ALL"], "schedule/misfire/policy", "fire_all"),
        (["--every", "1h", "--misfire-grace", "2m"], "schedule/misfire/grace", 120),
        (["--every", "1h", "--misfire-limit", "7"], "schedule/misfire/limit", 7),
        (["--args", "[1, null, true]"], "args", [1, None, True]),
        (["--kwargs", '{"a": "ü \\"%s\\" 1.0"}'], "kwargs", {"a": 'ü "%s" 1.0'}),
        (["--queue", "mail"], "queue", "mail"),
        (["--priority", "0"], "priority", 0),
        (["--max-attempts", "5"], "retry/max_attempts", 5),
        (["--backoff", "Linear"], "retry/backoff", "linear"),
        (["--initial-delay", "5"], "retry/initial_delay", 5),
        (["--max-delay", "2h"], "retry/max_delay", 7200),
        (["--retry-jitter", "0.25"], "retry/jitter", 0.25),
        (["--max-lost", "2"], "max_lost", 2),
        (["--timeout", "30m"], "timeout", 1800),
        (["--stop-grace", "5"], "stop_grace", 5),
        (["--overlap", "cancel_previous"], "overlap", "cancel_previous"),
        (["--max-concurrency", "2"], "max_concurrency", 2),
        (["--owner", "team: a b"], "owner", "team: a b"),
        (["--tag", "a", "--tag", "b"], "tags", ["a", "b"]),
        (["--keep-result"], "keep_result", True),
        (["--no-keep-result"], "keep_result", False),
    ],
)
def test_each_option_says_its_place_of_the_definition(options: list[str], place: str, value: object) -> None:
    said = create("--task", "onbeat.echo", *options)
    for name in place.split("/"):
        said = said[name]
    assert said == value


def test_once_in_counts_from_now() -> None:
    before = database_now()
    at = datetime.fromisoformat(create("--task", "onbeat.echo", "--once-in", "2h")["schedule"]["once"]["at"])
    assert before + timedelta(hours=2) <= at <= database_now() + timedelta(hours=2)


def test_a_url_is_called_in_place_of_a_task(loopback_may_be_called: None) -> None:
    made = create("--url", "http://127.0.0.1:8080/hook", "--method", "put")
    assert (made["target"]["http"]["url"], made["target"]["http"]["method"]) == ("http://127.0.0.1:8080/hook", "PUT")
    assert made["queue"] == "http"


def test_a_task_of_another_codebase_is_taken_if_that_is_said() -> None:
    assert create("--task", "elsewhere.send", "--lives-elsewhere")["target"]["task"] == "elsewhere.send"


def test_who_made_it_stands_in_the_history_and_the_audit_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    typed("jobs", "create", "a", "--task", "onbeat.echo")
    typed("jobs", "create", "b", "--task", "onbeat.echo", "--by", "ops")
    entries = AuditEntry.objects.order_by("pk").values_list("who", "through", "action", "subject")
    assert list(entries) == [("anna", "command", "job.create", "job:a"), ("ops", "command", "job.create", "job:b")]
    versions = JobVersion.objects.order_by("pk").values_list("version", "change", "changed_by", "through")
    assert list(versions) == [(1, "CREATED", "anna", "command"), (1, "CREATED", "ops", "command")]


YAML = """\
target: {task: onbeat.echo}
schedule: {cron: "0 3 * * *", timezone: Europe/Berlin, start: 2026-01-01T00:00:00Z, max_fires: 9}
retry: {max_attempts: 7, backoff: linear}
tags: [a, b]
"""


def test_a_definition_is_read_from_yaml_json_and_the_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text(YAML)
    first = document("jobs", "create", "first", "--file", str(tmp_path / "job.yaml"))
    assert (first["schedule"]["cron"], first["schedule"]["start"]) == ("0 3 * * *", "2026-01-01T00:00:00Z")
    assert (first["retry"]["max_attempts"], first["retry"]["backoff"], first["tags"]) == (7, "linear", ["a", "b"])
    again = {name: first[name] for name in ("target", "schedule", "retry", "tags")}
    (tmp_path / "job.json").write_text(json.dumps(again))
    second = document("jobs", "create", "second", "--file", str(tmp_path / "job.json"))
    monkeypatch.setattr(sys, "stdin", StringIO(YAML))
    third = document("jobs", "create", "third", "--file", "-")
    assert [{name: job[name] for name in again} for job in (second, third)] == [again, again]


def test_options_go_over_the_file_and_leave_the_rest_of_it(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(YAML)
    made = create("--file", str(file), "--every", "15m", "--max-attempts", "2", "--tag", "c")
    schedule = made["schedule"]
    assert (schedule["every"], schedule["max_fires"]) == (900, 9)
    assert "cron" not in schedule  # another kind replaces the kind
    assert (made["retry"]["max_attempts"], made["retry"]["backoff"], made["tags"]) == (2, "linear", ["c"])


def test_a_method_goes_over_the_request_of_a_file(tmp_path: Path, loopback_may_be_called: None) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"target": {"http": {"url": "http://127.0.0.1:9000/x", "headers": {"X-A": "1"}}}}))
    http = create("--file", str(file), "--method", "PATCH")["target"]["http"]
    assert (http["url"], http["method"], http["headers"]) == ("http://127.0.0.1:9000/x", "PATCH", {"X-A": "1"})


def test_arguments_are_read_from_a_file_and_the_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kwargs.json").write_text('{"name": "ü"}', encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", StringIO("[1, 2]"))
    made = create("--task", "onbeat.echo", "--kwargs", f"@{tmp_path / 'kwargs.json'}", "--args", "-")
    assert (made["args"], made["kwargs"]) == ([1, 2], {"name": "ü"})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--task", "onbeat.ecco"], "--task: There is no task 'onbeat.ecco' in the installed apps; did you mean"),
        (["--task", "elsewhere.send"], "say so with --lives-elsewhere."),
        (["--task", "onbeat.echo", "--url", "https://a.example/"], "A job runs one of --task and --url."),
        (["--method", "GET"], "--url is missing."),
        (["--url", "nonsense"], "--url: The url must begin with https:// or http://."),
        (["--url", "http://127.0.0.1/"], "--url: The address 127.0.0.1 is not a public one"),
        (["--url", "https://a.example/", "--method", "FLY"], "--method must be "),
        ([], "Say what the job runs: --task, --url, or a --file that does."),
        (["--owner", "x"], "Say what the job runs: --task, --url, or a --file that does."),
        (["--task", "onbeat.echo", "--cron", "61 * * * *"], "--cron: The minute '61' of the cron expression"),
        (["--task", "onbeat.echo", "--cron", "0 0 30 2 *"], "--cron: The cron expression '0 0 30 2 *' never fires"),
        (["--task", "onbeat.echo", "--cron", "@hourly", "--timezone", "Mars"], "--timezone: 'Mars' is no time zone"),
        (["--task", "onbeat.echo", "--timezone", "UTC"], "one of --cron, --every, --once-at and --once-in, and this"),
        (["--task", "onbeat.echo", "--cron", "@hourly", "--every", "5"], "one of --cron, --every, --once-at and --on"),
        (["--task", "onbeat.echo", "--every", "5", "--timezone", "UTC"], "--timezone belongs to --cron;"),
        (["--task", "onbeat.echo", "--cron", "@hourly", "--anchor", "2026-01-01"], "--anchor belongs to --every;"),
        (["--task", "onbeat.echo", "--once-at", "2090-01-01", "--once-in", "2h"], "Say when: --once-at or --once-in"),
        (["--task", "onbeat.echo", "--once-at", "2020-01-01"], "never fires after now; choose a date that will come."),
        (["--task", "onbeat.echo", "--once-at", "soon"], "--once-at 'soon' is no moment; write a date such as"),
        (["--task", "onbeat.echo", "--once-in", "0"], "--once-in must be 1 or more."),
        (["--task", "onbeat.echo", "--once-in", "99999999w"], "--once-in: The delay is longer than any calendar"),
        (["--task", "onbeat.echo", "--every", "0"], "--every must be 1 or more."),
        (["--task", "onbeat.echo", "--every", "1.5h"], "--every '1.5h' is no duration; write one such as 90s"),
        (["--task", "onbeat.echo", "--every", "5", "--max-fires", "0"], "--max-fires must be 1 or more."),
        (["--task", "onbeat.echo", "--every", "5", "--jitter", "-3"], "--jitter '-3' is no duration"),
        (["--task", "onbeat.echo", "--every", "5", "--misfire", "x"], "--misfire 'x' is none of skip, fire_once, fire"),
        (["--task", "onbeat.echo", "--every", "5", "--start", "2090-01-02", "--end", "2090-01-01"], "--end: The end "),
        (["--task", "onbeat.echo", "--priority", "10"], "--priority must be 9 or less."),
        (["--task", "onbeat.echo", "--priority", "1.5"], "--priority '1.5' is no whole number."),
        (["--task", "onbeat.echo", "--priority=--5"], "--priority '--5' is no whole number."),
        (["--task", "onbeat.echo", "--priority", "٣"], "--priority '٣' is no whole number."),
        (["--task", "onbeat.echo", "--priority", "9" * 5000], "is no whole number."),
        (["--task", "onbeat.echo", "--priority"], "--priority needs a value."),
        (["--task", "onbeat.echo", "--max-attempts", "9" * 20], "--max-attempts must be 1 to 10000, not 9999"),
        (["--task", "onbeat.echo", "--retry-jitter", "nan"], "--retry-jitter must be 0 to 1, not nan."),
        (["--task", "onbeat.echo", "--backoff", "never"], "--backoff 'never' is none of exponential, linear, fixed."),
        (["--task", "onbeat.echo", "--timeout", "0"], "--timeout must be 1 or more."),
        (["--task", "onbeat.echo", "--max-concurrency", "0"], "--max-concurrency must be 1 or more."),
        (["--task", "onbeat.echo", "--args", '{"a": 1}'], "--args must be a list"),
        (["--task", "onbeat.echo", "--kwargs", "[1]"], "--kwargs must be an object"),
        (
            ["--task", "onbeat.echo", "--kwargs", "x"],
            "--kwargs is no JSON (Expecting value: line 1 column 1 (char 0));",
        ),
        (["--task", "onbeat.echo", "--kwargs", '{"a": NaN}'], "--kwargs: The kwargs must be plain JSON"),
        (["--task", "onbeat.echo", "--kwargs", "@/no/such"], "/no/such cannot be read: No such file or directory."),
        (["--task", "onbeat.echo", "--kwargs", "[" * 100_000], "--kwargs is no JSON"),
        (["--task", "onbeat.echo", "--queue", "x y"], "--queue: The queue 'x y' must be"),
        (["--task", "onbeat.echo", "--tag", ""], "--tag: The tag '' must be"),
        (["--task", "onbeat.echo", "--owner", "a\x00b"], "--owner: "),
        (["--task", "onbeat.echo", "--tsk", "x"], "There is no option --tsk; did you mean --task?"),
        (["--file", "/no/such"], "/no/such cannot be read: No such file or directory."),
    ],
)
def test_what_cannot_be_is_one_sentence_that_names_the_option(options: list[str], says: str) -> None:
    assert says in refusal("jobs", "create", "new", *options)


@pytest.mark.parametrize("key", ["", "a b", "-", "ü", "k" * 201, "a\nb"])
def test_a_key_that_cannot_be_is_refused(key: str) -> None:
    assert "must be 1 to 200 letters, digits and" in refusal("jobs", "create", "--task", "onbeat.echo", "--", key)


def test_a_key_that_is_taken_is_refused(job: Job) -> None:
    says = refusal("jobs", "create", "billing.daily", "--task", "onbeat.echo")
    assert says == "There is a job 'billing.daily' already; choose another key."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n- b\n", "does not hold one definition: write names and values"),
        ("", "does not hold one definition"),
        ("a: [", "is no YAML in line 2"),
        ("owner: a\nowner: b\n", "is no YAML in line 2: the name 'owner' stands twice."),
        ("key: other\ntarget: {task: onbeat.echo}\n", "is about the job 'other' and the command about 'new'"),
        ("target: {task: onbeat.echo}\nstate: PAUSED\n", "`jobs pause`, `jobs resume` and `jobs archive` do."),
        ("target: {task: onbeat.echo}\ncolour: red\n", "colour"),
        ("target: {task: onbeat.echo}\npriority: many\n", "priority must be a whole number, not 'many'."),
        (
            "target: {task: onbeat.echo}\nschedule: {every: 5, start: 2026-01-01}\n",
            "schedule.start must be a date and time",
        ),
        ("a: " + "[" * 3000 + "]" * 3000, "is nested too deeply"),
        ("target: {task: onbeat.echo}\nretry: {retry_on: 5}\n", "retry.retry_on must be a list"),
        ("!!python/object/apply:os.system ['true']", "is no YAML in line 1"),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    assert says in refusal("jobs", "create", "new", "--file", str(tmp_path / "job.yaml"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")
    assert "it is no text in UTF-8." in refusal("jobs", "create", "new", "--file", str(tmp_path / "job.yaml"))
    assert "Is a directory" in refusal("jobs", "create", "new", "--file", str(tmp_path))


# ── Change ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_named_stays(job: Job) -> None:
    before = document("jobs", "show", "billing.daily")
    after = change("--queue", "mail", "--max-attempts", "9", "--misfire", "skip")
    told = {name for name in before if before[name] != after[name]}
    assert told == {"queue", "retry", "schedule", "version", "changed_at", "warnings"}
    assert after["retry"] == {**before["retry"], "max_attempts": 9}
    assert after["schedule"] == {**before["schedule"], "misfire": {**before["schedule"]["misfire"], "policy": "skip"}}


def test_a_change_is_told_kept_and_audited(job: Job) -> None:
    lines = typed("jobs", "change", "billing.daily", "--queue", "mail", "--by", "ops")
    assert lines[:3] == ["billing.daily is at version 2.", "", "billing.daily"]
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.through, entry.action, entry.subject) == (
        "ops",
        "command",
        "job.change",
        "job:billing.daily",
    )
    assert (entry.before, entry.after) == ({"queue": "default"}, {"queue": "mail"})
    version = JobVersion.objects.get(version=2)
    assert (version.change, version.changed_by, version.through) == ("CHANGED", "ops", "command")


def test_another_kind_of_schedule_replaces_the_kind(job: Job) -> None:
    assert "cron" not in change("--every", "15m")["schedule"]
    assert change("--cron", "@hourly")["schedule"]["timezone"] == "UTC"
    assert change("--timezone", "Europe/Berlin")["schedule"]["cron"] == "@hourly"


def test_schedule_time_limit_and_limit_of_runs_can_be_taken_away(job: Job) -> None:
    change("--max-concurrency", "2")
    after = change("--no-schedule", "--no-timeout", "--no-max-concurrency")
    assert (after["schedule"], after["timeout"], after["max_concurrency"]) == (None, None, None)
    assert after["schedule_in_words"] == "only when asked"


def test_of_a_request_only_what_is_named_changes(loopback_may_be_called: None) -> None:
    body = {"target": {"http": {"url": "http://127.0.0.1:9000/x", "headers": {"X-A": "1"}, "timeout": 5}}}
    sys_stdin, sys.stdin = sys.stdin, StringIO(json.dumps(body))
    try:
        document("jobs", "create", "billing.daily", "--file", "-")
    finally:
        sys.stdin = sys_stdin
    assert change("--method", "PUT")["target"]["http"]["url"] == "http://127.0.0.1:9000/x"
    http = change("--url", "http://127.0.0.1:9000/y")["target"]["http"]
    assert (http["method"], http["headers"], http["timeout"]) == ("PUT", {"X-A": "1"}, 5)
    assert change("--task", "onbeat.echo")["target"] == {"task": "onbeat.echo"}


def test_a_change_that_changes_nothing_says_so_and_leaves_no_version(job: Job) -> None:
    lines = typed("jobs", "change", "billing.daily", "--tag", "mail", "--timeout", "90s")
    assert lines[0] == "billing.daily says so already; it stays at version 1."
    assert not AuditEntry.objects.exists()
    assert JobVersion.objects.count() == 1


def test_the_version_that_was_read_may_be_named(job: Job) -> None:
    assert change("--queue", "mail", "--version", "1")["version"] == 2
    says = refusal("jobs", "change", "billing.daily", "--queue", "other", "--version", "1")
    assert "this edit began from version 1 and the job is at version 2" in says


def test_what_was_shown_can_be_sent_back_and_a_stale_one_is_refused(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(document("jobs", "show", "billing.daily")))
    assert change("--file", str(file))["version"] == 1
    assert change("--file", str(file), "--queue", "mail")["version"] == 2
    assert "began from version 1" in refusal("jobs", "change", "billing.daily", "--file", str(file))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "Say what to change, such as --cron or --queue;"),
        (["--version", "1"], "Say what to change"),
        (["--version", "x", "--queue", "a"], "--version 'x' is no whole number."),
        (["--no-schedule", "--cron", "@hourly"], "--cron and --no-schedule exclude each other; say one of them."),
        (["--no-schedule", "--misfire", "skip"], "--misfire and --no-schedule exclude each other"),
        (["--no-timeout", "--timeout", "5"], "--timeout and --no-timeout exclude each other"),
        (["--no-max-concurrency", "--max-concurrency", "5"], "--max-concurrency and --no-max-concurrency exclude"),
        (["--method", "PUT"], "--url is missing."),  # it runs a task
        (["--anchor", "2026-01-01"], "--anchor belongs to --every;"),
        (["--task", "onbeat.ecco"], "--task: There is no task 'onbeat.ecco'"),
        (["--priority", "-1"], "--priority must be 0 or more."),
    ],
)
def test_a_change_that_cannot_be_is_one_sentence(job: Job, options: list[str], says: str) -> None:
    assert says in refusal("jobs", "change", "billing.daily", *options)


def test_a_job_that_is_not_there_or_over_is_refused(job: Job) -> None:
    assert "did you mean 'billing.daily'?" in refusal("jobs", "change", "biling.daily", "--queue", "a")
    typed("jobs", "archive", "billing.daily", "--yes")
    assert "is over; create it anew." in refusal("jobs", "change", "billing.daily", "--queue", "a")


def test_a_schedule_that_is_gone_is_told_of_as_such(job: Job) -> None:
    change("--no-schedule")
    assert ended("jobs", "next", "billing.daily")[0] == 1
    assert "names none" in refusal("jobs", "change", "billing.daily", "--jitter", "5")
    assert datetime.fromisoformat(change("--every", "1h")["next_fire_at"]) > datetime.now(UTC)
