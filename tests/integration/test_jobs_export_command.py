"""`jobs export`: what it writes can be applied and is the same, and holds no secret."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from executions.clock import database_now
from executions.retry import Backoff, RetryPolicy
from executions.states import Overlap
from jobs import definitions, kept_secrets
from jobs.http_target import HttpTarget
from jobs.misfires import Misfire
from jobs.models import Job, JobVersion, SecretUse
from jobs.recurrence import Cron, Every, Once, Within
from tests.at_terminal import document, refusal, typed
from tests.job_files import a_body, written
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]


def an_installation() -> None:
    """Jobs of every kind."""
    now = database_now().replace(microsecond=123456)
    kept_secrets.put("signing", SecretUse.SIGNING, value="", hosts=None, overlap=timedelta(0), by="", now=now)
    create = definitions.create
    create(key="plain", task="onbeat.echo")
    create(key="cron", task="onbeat.echo", schedule=Cron("H 3 * * *", timezone="Europe/Berlin"), args=[1, "two", None])
    create(key="every", task="onbeat.echo", schedule=Every(900, anchor=now), kwargs={"ü": {"deep": [True, 1.5]}})
    create(key="once", task="onbeat.echo", schedule=Once(now + timedelta(days=3)), tags=["a", "b"], owner="me: & 'you'")
    bounded = Within(Cron("*/5 * * * * *"), start=now + timedelta(days=1), end=now + timedelta(days=9))
    policies = {"misfire": Misfire.FIRE_ALL, "misfire_limit": 7, "misfire_grace_seconds": 5, "jitter_seconds": 30}
    create(key="bounded", task="onbeat.echo", schedule=bounded, max_fires=9, **policies)
    retry = RetryPolicy(
        max_attempts=9, backoff=Backoff.FIXED, initial_seconds=1, cap_seconds=2, jitter=0.5, retry_on=("ValueError",)
    )
    limits = {"timeout_seconds": 60, "stop_grace_seconds": 5, "max_lost": 5, "keep_result": True, "priority": 9}
    create(
        key="limited", task="onbeat.echo", retry=retry, overlap=Overlap.SKIP, max_concurrency=2, queue="mail", **limits
    )
    create(key="elsewhere", task="other.codebase.task", task_lives_elsewhere=True)
    create(key="hook", http=HttpTarget(url="https://example.org/x"), schedule=Every(60, anchor=now))
    target = HttpTarget(
        url="https://example.org/y",
        method="PUT",
        headers={"X-A": "b"},
        body=[1],
        timeout_seconds=7,
        expected=[200],
        secret="signing",
    )
    create(key="hook/full", http=target, queue="other")


@pytest.mark.parametrize("options", [[], ["--full"]])
def test_what_is_exported_can_be_applied_and_is_the_same(tmp_path: Path, options: list[str]) -> None:
    an_installation()
    path = tmp_path / "jobs.yaml"
    path.write_text("\n".join(typed("jobs", "export", *options)), encoding="utf-8")
    before = definitions_now()
    data = document("jobs", "apply", str(path))
    assert {name: count for name, count in data["counts"].items() if count} == {"adopted": 9}
    for job in list(Job.objects.all()):
        definitions.archive(job)
    assert document("jobs", "apply", str(path))["counts"]["created"] == 9
    assert definitions_now() == before


def definitions_now() -> dict[str, Any]:
    newest: dict[str, Any] = {}
    for version in JobVersion.objects.filter(job__state__in=["ACTIVE", "PAUSED"]).order_by("version"):
        newest[version.job.key] = version.definition
    return newest


def test_an_export_leaves_out_what_is_as_by_default() -> None:
    definitions.create(key="billing.daily", task="onbeat.echo", schedule=Cron("30 7 * * 1-5", timezone="Europe/Berlin"))
    assert typed("jobs", "export", "--manager", "billing") == [
        "manager: billing",
        "jobs:",
        "- key: billing.daily",
        "  target:",
        "    task: onbeat.echo",
        "  schedule:",
        "    cron: 30 7 * * 1-5",
        "    timezone: Europe/Berlin",
    ]


def test_an_export_may_be_of_some_jobs(tmp_path: Path) -> None:
    jobs = a_body("a.1", tags=["x"]), a_body("a.2", queue="mail"), a_body("b", owner="me")
    typed("jobs", "apply", written(tmp_path, *jobs))
    definitions.create(key="by-hand", task="onbeat.echo")

    def exported(*options: str) -> list[str]:
        return [job["key"] for job in document("jobs", "export", *options)["jobs"]]

    assert exported() == ["a.1", "a.2", "b", "by-hand"]
    assert exported("b", "a.1") == ["a.1", "b"]
    assert exported("--tag", "x") == ["a.1"]
    assert exported("--queue", "mail") == ["a.2"]
    assert exported("--owner", "me") == ["b"]
    assert exported("--prefix", "a.") == ["a.1", "a.2"]
    assert exported("--managed-by", "team") == ["a.1", "a.2", "b"]
    assert "There is no job 'a.l'; did you mean" in refusal("jobs", "export", "a.l")


def test_no_secret_is_exported() -> None:
    an_installation()
    said = {"value": "whsec_" + "c2VjcmV0" * 6, "hosts": None, "overlap": timedelta(0), "by": ""}
    kept_secrets.put("signing", SecretUse.SIGNING, **said, now=database_now())
    text = "\n".join(typed("jobs", "export", "--full"))
    assert "secret: signing" in text
    assert "c2VjcmV0" not in text


def test_an_empty_installation_is_an_empty_file(tmp_path: Path) -> None:
    assert typed("jobs", "export") == ["manager: file", "jobs: []"]
