"""Many jobs in one call: all of them or none, each mistake named."""

from typing import Any

import pytest

from access.models import AuditEntry
from jobs import definitions, upserts
from jobs.models import Job, JobVersion
from tests.calling import Caller, a_caller
from tests.making import a_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Caller:
    return a_caller()


def body(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "target": {"task": "onbeat.echo"}, "schedule": {"cron": "0 3 * * *"}, **more}


def became(answer: Any) -> list[tuple[str, int, str]]:
    assert answer.status == 200, answer.body
    return [(job["key"], job["version"], job["became"]) for job in answer.body["jobs"]]


def test_jobs_are_created_changed_and_left_alone_in_one_call(api: Caller) -> None:
    assert became(api.post("/bulk/jobs", {"jobs": [body("a"), body("b")]})) == [
        ("a", 1, "created"),
        ("b", 1, "created"),
    ]
    answer = api.post("/bulk/jobs", {"jobs": [body("c"), body("b", priority=9), body("a")]})
    assert became(answer) == [("c", 1, "created"), ("b", 2, "changed"), ("a", 1, "unchanged")]
    assert Job.objects.get(key="b").priority == 9
    entries = AuditEntry.objects.filter(subject="job:b").order_by("pk")
    assert [(entry.action, entry.after["priority"]) for entry in entries] == [("job.create", 5), ("job.change", 9)]
    assert entries[1].before["priority"] == 5
    assert JobVersion.objects.filter(through="rest").count() == JobVersion.objects.count() == 4


def test_each_job_that_cannot_be_is_named_and_none_is_stored(api: Caller) -> None:
    a_paused = definitions.create(key="p", task="onbeat.echo")
    wrong = [
        body("ok"),
        body("x", schedule={"cron": "* *"}),
        body("y", schedule={}),
        body("z", target={"task": "nope"}),
    ]
    answer = api.post("/bulk/jobs", {"jobs": wrong})
    assert (answer.status, answer.pointers) == (422, ["/jobs/1/schedule/cron", "/jobs/2/schedule"])
    answer = api.post("/bulk/jobs", {"jobs": [wrong[0], body("p", queue="dead-letters"), body("ok")]})
    assert answer.pointers == ["/jobs/1/queue", "/jobs/2/key"]
    answer = api.post("/bulk/jobs", {"jobs": [wrong[0], wrong[3], body("p", target={"task": "celery.chord"})]})
    assert answer.pointers == ["/jobs/1/target/task", "/jobs/2/target/task"]
    late = body("once", schedule={"once": {"at": "2020-01-01T00:00:00Z"}})
    assert api.post("/bulk/jobs", {"jobs": [body("ok"), late]}).pointers == ["/jobs/1/schedule"]
    assert api.post("/bulk/jobs", {"jobs": [body("ok"), {"key": "x"}, 7]}).pointers == ["/jobs/1/target", "/jobs/2"]
    assert list(Job.objects.all()) == [a_paused]
    assert not AuditEntry.objects.filter(through="rest").exists()


def test_more_than_a_thousand_are_to_be_sent_in_parts(api: Caller) -> None:
    answer = api.post("/bulk/jobs", {"jobs": [body(f"j{n}") for n in range(upserts.MOST_AT_ONCE + 1)]})
    assert (answer.status, answer.pointers) == (400, ["/jobs"])


def test_many_new_or_known_jobs_take_as_many_queries_as_few(api: Caller, django_assert_max_num_queries: Any) -> None:
    api.get("/caller")  # notes that the key is used, once a minute
    counts = []
    for names in (["a", "b"], ["a", "b"], [f"j{n}" for n in range(25)], [f"j{n}" for n in range(25)]):
        with django_assert_max_num_queries(40) as captured:
            api.post("/bulk/jobs", {"jobs": [body(name) for name in names]})
        counts.append(len(captured))
    assert (counts[0], counts[1]) == (counts[2], counts[3])


def test_a_job_whose_schedule_was_broken_behind_our_back_is_given_what_is_said(api: Caller) -> None:
    api.post("/bulk/jobs", {"jobs": [body("a")]})
    job = Job.objects.get()
    job.schedule.expression = "broken"
    job.schedule.save()
    assert became(api.post("/bulk/jobs", {"jobs": [body("a")]})) == [("a", 2, "changed")]
    job.schedule.refresh_from_db()
    assert job.schedule.expression == "0 3 * * *"


def test_a_job_whose_task_lives_elsewhere_may_be_said_again_without_a_word_about_it(api: Caller) -> None:
    elsewhere = {"task": "billing.run", "lives_elsewhere": True}
    api.post("/bulk/jobs", {"jobs": [body("a", target=elsewhere)]})
    assert became(api.post("/bulk/jobs", {"jobs": [api.get("/jobs/a").body]})) == [("a", 1, "unchanged")]
    told = api.post("/bulk/jobs", {"jobs": [body("a", target={"task": "billing.rum"})]})
    assert (told.status, told.pointers) == (422, ["/jobs/0/target/task"])


def test_from_python_what_is_left_out_is_as_by_default(noon: Any) -> None:
    a_job(now=noon, key="a", priority=9, owner="me")
    put = upserts.put([upserts.Said("a", "onbeat.echo")], now=noon)[0]
    assert (put.became, put.job.priority, put.job.owner) == (upserts.Became.CHANGED, 5, "")
