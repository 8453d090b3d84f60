"""Two who call the REST API at the same moment."""

from collections import Counter
from datetime import datetime
from functools import partial

import pytest
from django.db import connection

from executions.models import Execution
from jobs.models import Job, JobVersion
from tests.calling import Answer, Caller, a_caller
from tests.making import a_job
from tests.races.connections import several

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
BODY = {"key": "invoice", "target": {"task": "onbeat.echo"}, "schedule": {"cron": "0 3 * * *"}}


def called(caller: Caller, method: str, path: str, body: object, **headers: str) -> Answer:
    """As a web process does it: the connection goes back to the pool, which has fewer than there are threads.

    On a busy machine some wait for one longer than the pool lets them. They are told so, and come again.
    """
    for _ in range(5):
        try:
            answer = Caller(caller.secret).call(method, path, body, **headers)
        finally:
            connection.close()
        if answer.status != 503:
            break
    return answer


def test_the_same_idempotency_key_from_twenty_threads_makes_one_job() -> None:
    api = a_caller()
    create = partial(called, api, "POST", "/jobs", BODY, Idempotency_Key="one")
    with several(20) as all_at_once:
        for _ in range(3):
            answers = all_at_once(*[create] * 20)
            # Who comes while the first one works is told so; who comes later gets its answer.
            assert set(Counter(answer.status for answer in answers)) <= {201, 409}
            for answer in answers:
                if answer.status == 409:
                    assert "is being worked on at this moment" in answer.body["detail"]
                    assert answer.headers["Retry-After"] == "1"
            made = {answer.body["id"] for answer in answers if answer.status == 201}
            assert len(made) == 1
    assert Job.objects.count() == JobVersion.objects.count() == 1
    assert create().body["id"] == Job.objects.get().pk


def test_twenty_creations_without_a_key_make_one_job_and_nineteen_conflicts() -> None:
    api = a_caller()
    with several(20) as all_at_once:
        answers = all_at_once(*[partial(called, api, "POST", "/jobs", BODY)] * 20)
    assert Counter(answer.status for answer in answers) == {201: 1, 409: 19}


def test_of_two_edits_of_one_version_one_is_refused() -> None:
    api = a_caller()
    api.post("/jobs", BODY)
    with several(2) as both:
        for version in range(1, 20):
            etag = f'"{version}"'
            edits = [
                partial(called, api, "PATCH", "/jobs/invoice", {"timeout": version}, If_Match=etag),
                partial(called, api, "PATCH", "/jobs/invoice", {"owner": f"v{version}"}, If_Match=etag),
            ]
            assert Counter(answer.status for answer in both(*edits)) == {200: 1, 412: 1}
    assert Job.objects.get().version == 20


def test_edits_that_name_no_version_all_count() -> None:
    api = a_caller()
    api.post("/jobs", BODY)
    with several(4) as all_at_once:
        edits = [
            partial(called, api, "PATCH", "/jobs/invoice", change)
            for change in ({"priority": 9}, {"owner": "a"}, {"tags": ["x"]}, {"timeout": 5})
        ]
        assert [answer.status for answer in all_at_once(*edits)] == [200] * 4
    job = Job.objects.get()
    assert (job.priority, job.owner, job.tags, job.timeout_seconds, job.version) == (9, "a", ["x"], 5, 5)


def test_a_job_that_was_to_be_new_is_never_overwritten() -> None:
    api = a_caller()
    with several(6) as all_at_once:
        for number in range(10):
            puts = [
                partial(called, api, "PUT", f"/jobs/by-key/n{number}", {**body, "priority": n}, If_None_Match="*")
                for n, body in enumerate([{"target": BODY["target"]}] * 6)
            ]
            assert Counter(answer.status for answer in all_at_once(*puts)) == {201: 1, 412: 5}
    assert JobVersion.objects.count() == 10


def test_upserts_of_one_key_at_once_create_it_once() -> None:
    api = a_caller()
    body = {name: value for name, value in BODY.items() if name != "key"}
    with several(6) as all_at_once:
        for number in range(10):
            puts = [partial(called, api, "PUT", f"/jobs/by-key/k{number}", body)] * 3
            bulks = [partial(called, api, "POST", "/bulk/jobs", {"jobs": [{**body, "key": f"k{number}"}]})] * 3
            answers = all_at_once(*puts, *bulks)
            assert {answer.status for answer in answers} <= {200, 201}, [answer.body for answer in answers]
    assert Job.objects.count() == JobVersion.objects.count() == 10


def test_bulk_upserts_of_the_same_jobs_in_another_order_do_not_wait_in_a_ring() -> None:
    api = a_caller()
    keys = [f"k{number}" for number in range(12)]
    with several(4) as all_at_once:
        for priority in range(1, 9):
            jobs = [{**BODY, "key": key, "priority": priority} for key in keys]
            calls = [
                partial(called, api, "POST", "/bulk/jobs", {"jobs": each})
                for each in (jobs, jobs[::-1], jobs[6:] + jobs[:6], jobs)
            ]
            answers = all_at_once(*calls)
            assert {answer.status for answer in answers} == {200}, [answer.body for answer in answers]
    assert Job.objects.count() == 12


def test_the_same_run_key_from_many_is_one_run(noon: datetime) -> None:
    api = a_caller()
    a_job(now=noon, key="mail")
    body = {"delay": 600, "run_key": "user-1"}
    with several(8) as all_at_once:
        answers = all_at_once(*[partial(called, api, "POST", "/jobs/mail/runs", body)] * 8)
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 7}
    assert Execution.objects.count() == 1
