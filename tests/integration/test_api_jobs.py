"""Jobs through the REST API: as people write them, read, changed and found again."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from access.models import AuditEntry
from api.jobs.examples import ONE_OFF, RECURRING
from executions.clock import database_now
from jobs import definitions
from jobs.models import Job, JobVersion, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from tests.calling import Caller, a_caller
from tests.making import a_job, planned
from workers.models import Worker

pytestmark = pytest.mark.django_db
TARGET = {"task": "onbeat.echo"}


@pytest.fixture
def api() -> Caller:
    return a_caller()


def a_worker(*queues: str) -> None:
    now = database_now()
    Worker.objects.create(name="w@h", host="h", pid=1, queues=list(queues), started_at=now, heartbeat_at=now)


# ── Created and read ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_created_as_it_was_written_and_answered_with_what_became_of_it(api: Caller) -> None:
    answer = api.post("/jobs", RECURRING)
    assert answer.status == 201
    job = answer.body
    same = ("key", "kwargs", "queue", "priority", "timeout")
    assert {name: job[name] for name in same} == {name: RECURRING[name] for name in same}
    assert (job["state"], job["version"]) == ("ACTIVE", 1)
    assert job["schedule"]["cron"] == "0 3 * * *"
    assert job["schedule_in_words"] == "Every day at 03:00, Los Angeles"
    assert job["next_fire_at"] > job["created_at"]
    assert job["retry"]["backoff"] == "exponential"
    assert job["last_execution"] is None
    assert answer.headers["ETag"] == '"1"'
    assert api.get(answer.headers["Location"]).body == job
    assert api.get("/jobs/daily-invoice-gen").body == api.get("/jobs/by-key/daily-invoice-gen").body == job


def test_a_job_that_fires_once_says_when(api: Caller) -> None:
    job = api.post("/jobs", ONE_OFF).body
    assert job["schedule"]["once"]["at"] == job["next_fire_at"]
    wait = datetime.fromisoformat(job["next_fire_at"]) - datetime.fromisoformat(job["created_at"])
    assert wait.total_seconds() == pytest.approx(3600, abs=1)


def test_every_field_arrives_where_it_belongs(api: Caller) -> None:
    body = {
        "key": "all:fields@here/x",
        "target": TARGET,
        "args": [1, "a", None],
        "kwargs": {"a": {"b": [1.5]}},
        "schedule": {
            "every": 90,
            "anchor": "2026-01-01T00:00:30Z",
            "start": "2027-01-01T00:00:00+02:00",
            "end": "2028-01-01T00:00:00Z",
            "max_fires": 7,
            "jitter": 5,
            "misfire": {"policy": "fire_all", "grace": 11, "limit": 3},
        },
        "queue": "batch-etl",
        "priority": 9,
        "retry": {
            "max_attempts": 4,
            "backoff": "LINEAR",
            "initial_delay": 2,
            "max_delay": 60,
            "jitter": 0.25,
            "retry_on": ["OSError"],
            "give_up_on": ["ValueError"],
        },
        "max_lost": 2,
        "timeout": 60,
        "stop_grace": 1,
        "keep_result": True,
        "overlap": "queue",
        "max_concurrency": 2,
        "owner": "billing",
        "tags": ["a", "b"],
    }
    job = api.post("/jobs", body).body
    stored, schedule = Job.objects.get(), Schedule.objects.get()
    assert (stored.timeout_seconds, stored.stop_grace_seconds, stored.max_lost, stored.keep_result) == (60, 1, 2, True)
    assert (stored.max_attempts, stored.overlap, stored.max_concurrency) == (4, "QUEUE", 2)
    assert stored.retry == {
        "backoff": "LINEAR",
        "initial_seconds": 2,
        "cap_seconds": 60,
        "jitter": 0.25,
        "retry_on": ["OSError"],
        "give_up_on": ["ValueError"],
    }
    assert (schedule.misfire, schedule.misfire_grace_seconds, schedule.misfire_limit) == ("FIRE_ALL", 11, 3)
    assert (schedule.jitter_seconds, schedule.max_fires, schedule.expression) == (5, 7, "90")
    for name, value in body.items():
        if name not in ("schedule", "retry"):
            assert job[name] == value
    assert job["retry"] == {**body["retry"], "backoff": "linear"}  # type: ignore[dict-item]
    assert job["schedule"] == {**body["schedule"], "start": "2026-12-31T22:00:00Z"}  # type: ignore[dict-item]


def test_an_answer_can_be_sent_back_as_it_is_and_changes_nothing(api: Caller, noon: datetime) -> None:
    """For each kind of schedule, and with all that only answers have."""
    bounded = Within(Every(60, noon), end=noon + timedelta(days=4000))
    schedules = [None, Cron("H 3 * * 1", "Europe/Berlin"), Every(7, noon), bounded, Once(noon + timedelta(days=1))]
    for number, schedule in enumerate(schedules):
        a_job(now=noon, key=f"job-{number}", schedule=schedule, tags=["x"], max_attempts=9)
        for read in (f"/jobs/job-{number}", f"/jobs/by-key/job-{number}"):
            before = api.get(read).body
            answer = api.put(read, before)
            assert (answer.status, answer.body) == (200, before)
            assert api.patch(read, before).body == before


def test_a_job_that_is_over_is_found_by_its_id_alone(api: Caller, noon: datetime) -> None:
    job = definitions.archive(a_job(now=noon, key="gone"))
    assert api.get(f"/jobs/{job.pk}").body["state"] == "ARCHIVED"
    answer = api.get("/jobs/gone")
    assert (answer.status, answer.body["detail"]) == (404, "The job 'gone' is over; create it anew.")
    assert api.patch(f"/jobs/{job.pk}", {"owner": "me"}).status == 409


def test_a_key_of_digits_is_found_by_key_and_the_answer_says_so(api: Caller) -> None:
    api.post("/jobs", {"key": "4711", "target": TARGET})
    assert "/jobs/by-key/4711" in api.get("/jobs/4711").body["detail"]
    assert api.get("/jobs/by-key/4711").status == 200


def test_the_last_execution_is_the_latest_whose_time_has_come(api: Caller) -> None:
    now = database_now()
    job = a_job(now=now - timedelta(days=1), key="a")
    planned(job, now - timedelta(hours=2))
    latest = planned(job, now - timedelta(hours=1))
    planned(job, now + timedelta(hours=1))
    assert api.get("/jobs/a").body["last_execution"]["id"] == str(latest.pk)


# ── Warned ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_queue_that_no_worker_consumes_is_warned_of(api: Caller, settings: Any) -> None:
    warned = api.post("/jobs", {"key": "a", "target": TARGET, "queue": "batch-etl"}).body["warnings"]
    name = f"{settings.ONBEAT_EXECUTIONS_PREFIX}batch-etl"
    assert warned == [f"No worker has consumed the queue 'batch-etl' of late: start one with -Q {name}."]
    a_worker(name)
    assert api.get("/jobs/a").body["warnings"] == []


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("*/7 * * * *", 'the last gap is 4 minutes and not 7. For an even rhythm use "every": 420.'),
        ("0 */5 * * *", 'the last gap is 4 hours and not 5. For an even rhythm use "every": 18000.'),
        ("30 */45 * * * *", "the last gap is 15 minutes and not 45"),
        ("*/15 */6 * * *", None),
        ("*/1 * * * *", None),
        ("@hourly", None),
    ],
)
def test_a_step_that_begins_anew_at_each_turn_is_warned_of(
    cron: str, words: str | None, api: Caller, settings: Any
) -> None:
    a_worker(f"{settings.ONBEAT_EXECUTIONS_PREFIX}default")
    warned = api.post("/jobs", {"key": "a", "target": TARGET, "schedule": {"cron": cron}}).body["warnings"]
    assert [words in each for each in warned if words] == ([True] if words else [])
    assert bool(warned) is bool(words)


# ── Changed ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_replacement_sets_what_it_leaves_out_back_to_its_default(api: Caller) -> None:
    api.post("/jobs", RECURRING)
    answer = api.put("/jobs/daily-invoice-gen", {"target": TARGET})
    assert answer.status == 200
    assert (answer.body["schedule"], answer.body["timeout"], answer.body["kwargs"]) == (None, None, {})
    assert answer.headers["ETag"] == '"2"'


def test_a_patch_changes_what_it_names_and_keeps_the_rest(api: Caller) -> None:
    before = api.post("/jobs", RECURRING).body
    after = api.patch("/jobs/daily-invoice-gen", {"schedule": {"cron": "0 4 * * *"}, "retry": {"max_attempts": 9}}).body
    assert after["schedule"] == {**before["schedule"], "cron": "0 4 * * *"}
    assert after["retry"] == {**before["retry"], "max_attempts": 9}
    assert (after["kwargs"], after["timeout"], after["version"]) == (before["kwargs"], 600, 2)
    assert api.patch("/jobs/daily-invoice-gen", {"kwargs": {}}).body["kwargs"] == {}
    assert api.patch("/jobs/daily-invoice-gen", {"timeout": None}).body["timeout"] is None
    assert api.patch("/jobs/daily-invoice-gen", {"schedule": {"misfire": {"grace": 5}}}).body["schedule"][
        "misfire"
    ] == {
        "policy": "fire_once",
        "grace": 5,
        "limit": 100,
    }


def test_a_patch_that_names_another_kind_of_schedule_replaces_the_kind(api: Caller) -> None:
    api.post("/jobs", {**RECURRING, "schedule": {"cron": "@daily", "timezone": "Europe/Berlin", "jitter": 3}})
    schedule = api.patch("/jobs/daily-invoice-gen", {"schedule": {"every": 60}}).body["schedule"]
    assert (schedule["every"], schedule["jitter"]) == (60, 3)
    assert schedule.keys().isdisjoint({"cron", "timezone", "once"})
    assert api.patch("/jobs/daily-invoice-gen", {"schedule": None}).body["schedule"] is None


def test_an_interval_without_an_anchor_keeps_the_one_it_had(api: Caller) -> None:
    body = {"target": TARGET, "schedule": {"every": 3600}}
    first = api.put("/jobs/by-key/a", body).body
    assert (Schedule.objects.update(anchor_at=database_now() - timedelta(minutes=7)), first["version"]) == (1, 1)
    anchored = api.get("/jobs/a").body["schedule"]["anchor"]
    for answer in (api.put("/jobs/by-key/a", body), api.post("/bulk/jobs", {"jobs": [{**body, "key": "a"}]})):
        assert answer.status == 200
    assert api.get("/jobs/a").body["schedule"]["anchor"] == anchored
    assert api.get("/jobs/a").body["version"] == 1


def test_the_key_cannot_be_changed(api: Caller) -> None:
    api.post("/jobs", RECURRING)
    for answer in (api.put("/jobs/daily-invoice-gen", ONE_OFF), api.patch("/jobs/daily-invoice-gen", {"key": "b"})):
        assert (answer.status, answer.pointers) == (422, ["/key"])
    assert api.put("/jobs/by-key/other", RECURRING).status == 422
    assert list(Job.objects.values_list("key", "version")) == [("daily-invoice-gen", 1)]


def test_an_edit_of_a_version_that_is_no_more_is_refused(api: Caller) -> None:
    api.post("/jobs", RECURRING)
    assert api.patch("/jobs/daily-invoice-gen", {"owner": "a"}, If_Match='"1"').status == 200
    calls = [
        api.patch("/jobs/daily-invoice-gen", {"owner": "b"}, If_Match='"1"'),
        api.put("/jobs/daily-invoice-gen", RECURRING, If_Match='"1"'),
        api.put("/jobs/by-key/daily-invoice-gen", RECURRING, If_Match='"1"'),
        api.delete("/jobs/daily-invoice-gen", If_Match='"1"'),
        api.post("/jobs/daily-invoice-gen/pause", {}, If_Match='"1"'),
        api.post("/jobs/daily-invoice-gen/resume", {}, If_Match='"1"'),
    ]
    assert {(answer.status, answer.body["current_version"]) for answer in calls} == {(412, 2)}
    assert Job.objects.get().owner == "a"
    assert api.patch("/jobs/daily-invoice-gen", {"owner": "c"}, If_Match="*").status == 200
    assert api.patch("/jobs/daily-invoice-gen", {"owner": "d"}, If_Match='W/"3"').status == 200
    assert api.patch("/jobs/daily-invoice-gen", {"owner": "e"}, If_Match="4").pointers == ["If-Match"]


def test_a_body_that_is_sent_back_is_refused_if_the_job_was_changed_meanwhile(api: Caller) -> None:
    read = api.post("/jobs", RECURRING).body
    api.patch("/jobs/daily-invoice-gen", {"owner": "somebody else"})
    calls = [
        api.put("/jobs/daily-invoice-gen", {**read, "priority": 9}),
        api.patch("/jobs/daily-invoice-gen", {"version": 1, "priority": 9}),
        api.put("/jobs/by-key/daily-invoice-gen", {**read, "priority": 9}),
    ]
    assert [answer.status for answer in calls] == [412] * 3
    bulk = api.post("/bulk/jobs", {"jobs": [{**read, "priority": 9}]})
    assert (bulk.status, bulk.pointers) == (422, ["/jobs/0/version"])
    assert api.patch("/jobs/daily-invoice-gen", {"version": "2"}).pointers == ["/version"]
    assert Job.objects.get().owner == "somebody else"
    assert api.put("/jobs/daily-invoice-gen", {**read, "priority": 9}, If_Match="*").status == 200


def test_a_state_that_a_body_names_is_neither_set_nor_passed_over(api: Caller) -> None:
    paused = api.post("/jobs", {**RECURRING, "state": "PAUSED"})
    assert (paused.status, paused.pointers) == (422, ["/state"])
    assert "leave state out; pause, resume and DELETE do" in paused.body["detail"]
    api.post("/jobs", {**RECURRING, "state": "ACTIVE"})
    for answer in (
        api.patch("/jobs/daily-invoice-gen", {"state": "PAUSED"}),
        api.put("/jobs/by-key/daily-invoice-gen", {**RECURRING, "state": "PAUSED"}),
        api.post("/bulk/jobs", {"jobs": [{**RECURRING, "state": "PAUSED"}]}),
    ):
        assert answer.status == 422
    api.post("/jobs/daily-invoice-gen/pause", {"reason": "r"})
    assert api.patch("/jobs/daily-invoice-gen", {**api.get("/jobs/daily-invoice-gen").body, "owner": "a"}).status == 200


def test_a_job_whose_task_lives_elsewhere_says_so_and_can_be_copied(api: Caller) -> None:
    api.post("/jobs", {**RECURRING, "target": {"task": "billing.run", "lives_elsewhere": True}})
    read = api.get("/jobs/daily-invoice-gen").body
    assert read["target"] == {"task": "billing.run", "lives_elsewhere": True}
    assert api.post("/jobs", {**read, "key": "a-copy"}).status == 201
    assert "lives_elsewhere" not in api.post("/jobs", ONE_OFF).body["target"]


def test_put_by_key_creates_then_changes_and_then_leaves_alone(api: Caller) -> None:
    body = {name: value for name, value in RECURRING.items() if name != "key"}
    calls = [api.put("/jobs/by-key/team/report", body) for _ in range(2)]
    calls.append(api.put("/jobs/by-key/team/report", {**body, "priority": 7}))
    assert [(answer.status, answer.body["version"]) for answer in calls] == [(201, 1), (200, 1), (200, 2)]
    assert api.get("/jobs/by-key/team/report").body["priority"] == 7
    assert api.put("/jobs/by-key/team/report", body, If_None_Match="*").status == 412
    assert api.put("/jobs/by-key/new", body, If_Match='"1"').status == 412
    assert api.delete("/jobs/by-key/team/report").body["state"] == "ARCHIVED"
    assert api.put("/jobs/by-key/team/report", body).status == 201


def test_an_archived_job_keeps_its_reason_in_its_history(api: Caller) -> None:
    api.post("/jobs", RECURRING)
    assert api.delete("/jobs/daily-invoice-gen?reason=replaced%20by%20x").body["state"] == "ARCHIVED"
    assert JobVersion.objects.first().note == "replaced by x"  # type: ignore[union-attr]
    assert api.delete("/jobs/daily-invoice-gen").status == 404


def test_what_a_job_was_can_be_read_compared_and_sent_back(api: Caller) -> None:
    first = api.post("/jobs", RECURRING).body
    api.patch("/jobs/daily-invoice-gen", {"schedule": {"cron": "0 4 * * *"}, "kwargs": {"message": "b"}})
    api.post("/jobs/daily-invoice-gen/pause", {"reason": "holidays"})
    versions = api.get("/jobs/daily-invoice-gen/versions?limit=2").body
    assert [(each["version"], each["change"]) for each in versions["items"]] == [(3, "PAUSED"), (2, "CHANGED")]
    assert versions["items"][0]["note"] == "holidays"
    assert [each["version"] for each in api.get(versions["next"]).body["items"]] == [1]
    assert api.get("/jobs/daily-invoice-gen/diff?since=1").body["differences"] == [
        {"field": "kwargs", "before": RECURRING["kwargs"], "after": {"message": "b"}},
        {"field": "schedule.cron", "before": "0 3 * * *", "after": "0 4 * * *"},
    ]
    assert api.get("/jobs/daily-invoice-gen/versions/9").status == 404
    definition = api.get("/jobs/daily-invoice-gen/versions/1").body["definition"]
    assert definition == {name: first[name] for name in definition}
    assert api.put("/jobs/daily-invoice-gen", definition).status == 200
    assert api.get("/jobs/daily-invoice-gen/diff?since=1").body["differences"] == []


def test_a_version_of_an_older_release_is_told_with_todays_defaults(api: Caller, noon: datetime) -> None:
    bounded = Within(Every(60, noon), start=noon, end=noon + timedelta(days=4000))
    job = a_job(now=noon, key="a", schedule=bounded)
    version = JobVersion.objects.get()
    del version.definition["timeout_seconds"], version.definition["schedule"]["jitter_seconds"]
    version.definition["gone"] = 1
    version.save()
    definition = api.get(f"/jobs/{job.pk}/versions/1").body["definition"]
    assert (definition["timeout"], definition["schedule"]["jitter"]) == (None, 0)
    assert definition["schedule"]["start"] == definition["schedule"]["anchor"] == "2026-06-15T12:00:00Z"


def test_pause_and_resume_say_who_why_and_until_when(api: Caller) -> None:
    api.post("/jobs", RECURRING)
    until = (database_now() + timedelta(days=1)).isoformat()
    paused = api.post("/jobs/daily-invoice-gen/pause", {"reason": "holidays", "until": until}).body
    assert (paused["state"], paused["pause"]["reason"], paused["next_fire_at"]) == ("PAUSED", "holidays", None)
    assert datetime.fromisoformat(paused["pause"]["until"]) == datetime.fromisoformat(until)
    assert paused["pause"]["by"].startswith("the admin (")
    resumed = api.post("/jobs/daily-invoice-gen/resume").body
    assert (resumed["state"], resumed["pause"]) == ("ACTIVE", None)
    answer = api.post("/jobs/daily-invoice-gen/pause", {"until": "2020-01-01T00:00:00Z"})
    assert (answer.status, answer.pointers) == (422, ["/until"])


def test_every_change_is_in_the_audit_trail_with_before_and_after(api: Caller) -> None:
    api.post("/jobs", RECURRING)
    api.patch("/jobs/daily-invoice-gen", {"priority": 9})
    api.patch("/jobs/daily-invoice-gen", {"priority": 9})
    api.post("/jobs/daily-invoice-gen/pause", {"reason": "holidays"})
    api.post("/jobs/daily-invoice-gen/runs", {"delay": 60})
    api.delete("/jobs/daily-invoice-gen")
    entries = list(AuditEntry.objects.filter(subject="job:daily-invoice-gen").order_by("pk"))
    assert [entry.action for entry in entries] == ["job.create", "job.change", "job.pause", "job.run", "job.archive"]
    assert {(entry.through, entry.who.split(" (")[0]) for entry in entries} == {("rest", "the admin")}
    assert entries[0].after["priority"] == 5
    assert (entries[1].before, entries[1].after) == ({"priority": 5}, {"priority": 9})
    assert entries[2].after == {"state": "PAUSED", "pause": {"reason": "holidays", "until": None}}
    found = api.get("/audit?subject=job:daily-invoice-gen&action=job.pause").body["items"]
    assert [entry["note"] for entry in found] == ["holidays"]
