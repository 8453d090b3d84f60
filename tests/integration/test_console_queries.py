"""However many rows there are, a page of the admin asks as many questions; and none of them counts all executions."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from access import api_keys, audit
from access.roles import Role
from beat.models import Beat
from callbacks.models import Host
from console import glance
from executions import lifecycle, queues
from executions.clock import database_now
from executions.identity import fire_time_of
from executions.models import Attempt, DeadMessage
from executions.states import Trigger
from jobs import definitions, runs
from jobs.recurrence import Every
from tests.furnished import ROOT
from tests.making import a_job, claimed, planned
from tests.visiting import a_visitor, root
from workers.models import Worker

pytestmark = pytest.mark.django_db
FEW, MANY = 3, 30
JOBS, EXECUTIONS = f"{ROOT}onbeat_jobs/job/", f"{ROOT}onbeat_executions/execution/"
LISTS = {
    "jobs": JOBS,
    "jobs by their next fire": f"{JOBS}?order=next&state=open",
    "executions": EXECUTIONS,
    "dead executions": f"{EXECUTIONS}?state=DEAD",
    "executions of a job": f"{EXECUTIONS}?job=main&when=any",
    "executions with an error": f"{EXECUTIONS}?error=boom&worker=worker@here",
    "dead letters": f"{ROOT}dead-letters/",
    "queues": f"{ROOT}queues/",
    "beats": f"{ROOT}onbeat_beat/beat/",
    "workers": f"{ROOT}onbeat_workers/worker/",
    "hosts": f"{ROOT}onbeat_callbacks/host/",
    "dead messages": f"{ROOT}onbeat_executions/deadmessage/",
    "keys": f"{ROOT}onbeat_access/apikey/",
    "audit": f"{ROOT}onbeat_access/auditentry/",
}


class Town:
    """Grows from a few of everything to many."""

    def __init__(self, now: datetime) -> None:
        self.now, self.size = now, 0
        self.job = a_job(now=now, key="main", schedule=Every(86_400, now), max_attempts=1)
        self.one = planned(self.job, now - timedelta(days=1))
        lifecycle.fail(claimed(self.one, now=now), error="boom", now=now)

    def grow(self, size: int) -> None:
        for number in range(self.size, size):
            self._add(number)
        self.size = size
        glance.forget()

    def _add(self, number: int) -> None:
        now, ago = self.now, self.now - timedelta(minutes=number + 1)
        job = a_job(now=now, key=f"job-{number}", schedule=Every(86_400, now), max_attempts=1, queue=f"queue-{number}")
        for each in (self.job, job):  # many of one job, and one of many jobs; in groups of their own
            lifecycle.fail(claimed(planned(each, ago), now=now), error=f"boom {chr(97 + number)}", now=now)
        planned(job, now)
        self.job = definitions.change(self.job, version=number + 1, priority=number % 9, now=now)
        runs.replay([self.one.pk], now=now)
        facts = {"host": "h", "pid": 1, "started_at": now}
        name = queues.work_queue(f"queue-{number}").name
        Worker.objects.create(
            name=f"w{number}", queues=[name], heartbeat_at=now, running=[str(self.one.pk)] * (number % 5), **facts
        )
        Beat.objects.create(name=f"b{number}", ticked_at=now, seen_at=now, **facts)
        Host.objects.create(origin=f"https://h{number}.example", used_at=now)
        DeadMessage.objects.create(digest=str(number), queue="q", body=b"", error="e", collected_at=now)
        api_keys.make(name=f"key {number}", role="viewer", now=now)
        audit.record(who="ada", through="rest", action=f"job.{number}", subject="job:main", now=now)
        if number:
            at = fire_time_of(self.one.pk)
            Attempt.objects.create(
                execution_id=self.one.pk, fire_time=at, number=number + 1, outcome="FAILED", worker="w",
                started_at=now, finished_at=now, error="boom",
            )  # fmt: skip


@pytest.fixture
def town() -> Town:
    return Town(database_now())


def asked(client: Client, address: str) -> list[str]:
    """The statements of a page, while nothing is kept from the page before and everybody is alive."""
    glance.forget()
    now = database_now()
    Beat.objects.update(ticked_at=now, seen_at=now)
    Worker.objects.update(heartbeat_at=now)
    with CaptureQueriesContext(connection) as statements:
        response = client.get(address)
    assert response.status_code == 200, address
    return [statement["sql"] for statement in statements.captured_queries]


def check_there_is_more(client: Client, town: Town) -> None:
    """What is compared shows all of it."""
    assert len(client.get(JOBS).context["rows"]) == MANY + 1
    assert len(client.get(f"{ROOT}dead-letters/").context["groups"]) > MANY
    assert len(client.get(f"{ROOT}queues/").context["rows"]) > MANY
    page = client.get(f"{EXECUTIONS}{town.one.pk}/change/").context
    assert (len(page["attempts"]), len(page["replays"])) == (MANY, 20)
    assert len(client.get(f"{JOBS}{town.job.pk}/change/?versions=all").context["versions"]) == MANY + 1


def test_a_page_asks_as_many_questions_for_many_rows_as_for_few(town: Town) -> None:
    client = root()
    pages = {
        **LISTS,
        "dashboard": ROOT,
        "its living part": f"{ROOT}living/",
        "a job": f"{JOBS}{town.job.pk}/change/",
        "all versions of a job": f"{JOBS}{town.job.pk}/change/?versions=all",
        "two versions of a job": f"{JOBS}{town.job.pk}/versions/",
        "an execution": f"{EXECUTIONS}{town.one.pk}/change/",
    }
    town.grow(FEW)
    for address in (ROOT, f"{ROOT}onbeat_beat/beat/"):
        client.get(address)  # what is asked once per process, such as content types, has been
    few = {name: asked(client, address) for name, address in pages.items()}
    town.grow(MANY)
    check_there_is_more(client, town)
    many = {name: asked(client, address) for name, address in pages.items()}
    assert {name: len(sent) for name, sent in many.items()} == {name: len(sent) for name, sent in few.items()}


def test_a_list_counts_executions_no_further_than_a_limit(town: Town) -> None:
    client = root()
    town.grow(FEW)
    for name, address in LISTS.items():
        for sql in asked(client, address):
            # Groups are of what waits or runs, by indexes that hold nothing else.
            if "COUNT(" in sql and '"onbeat_execution"' in sql and "GROUP BY" not in sql:
                assert "LIMIT" in sql, (name, sql)


def test_a_list_reads_a_page_of_executions_and_no_more(town: Town) -> None:
    now = town.now
    rows = [town.job.new_execution(now - timedelta(seconds=n), trigger=Trigger.MANUAL, now=now) for n in range(120)]
    lifecycle.plan(rows)
    client = root()
    first = client.get(EXECUTIONS)
    assert len(first.context["executions"]) == 50
    assert first.context["next"]
    seen = {row.execution.pk for row in first.context["executions"]}
    second = client.get(f"{EXECUTIONS}?{first.context['next']}")
    assert len(seen | {row.execution.pk for row in second.context["executions"]}) == 100
    assert not second.context["is_first"]


@pytest.mark.parametrize("order", ["key", "next", "changed", "newest"])
def test_the_list_of_jobs_goes_on_where_its_page_ended(town: Town, order: str) -> None:
    now = town.now
    keys = {a_job(now=now, key=f"many-{number:03}", schedule=Every(86_400, now)).key for number in range(60)}
    client = root()
    first = client.get(f"{JOBS}?order={order}")
    second = client.get(f"{JOBS}?{first.context['next']}")
    shown = [row.job.key for page in (first, second) for row in page.context["rows"]]
    assert (len(shown), set(shown)) == (61, keys | {"main"})
    assert second.context["next"] == ""


def test_each_page_asks_once_who_looks(town: Town) -> None:
    """However many buttons it has."""
    client = a_visitor(Role.ADMIN)
    for address in (JOBS, EXECUTIONS, f"{JOBS}{town.job.pk}/change/", ROOT):
        assert sum(Role.VIEWER.group in sql for sql in asked(client, address)) == 1, address
