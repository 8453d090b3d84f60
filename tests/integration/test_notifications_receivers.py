"""Receivers: made, changed, removed; what is refused and with which remedy; what is sealed."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.apps import apps

from executions.models import Execution
from jobs import definitions, kept_secrets, vault
from jobs.models import Job, JobState, Secret, SecretUse
from jobs.refusals import SecretInUse
from notifications import receivers
from notifications.kinds import PAGERDUTY_URL, Template
from notifications.models import Receiver, Trouble
from notifications.refusals import InvalidReceiver, NoSuchReceiver
from tests.making import a_job
from tests.notifying import ROUTING_KEY, a_receiver, fails, look

pytestmark = pytest.mark.django_db

URL = "https://hooks.slack.com/services/T000/B000/xyzXYZxyz"


def test_a_receiver_comes_with_the_job_that_delivers_and_a_key_that_is_told_once(noon: datetime) -> None:
    made = receivers.create("ops", url=URL, now=noon, by="ann")
    receiver = receivers.find("ops")
    assert made.key.startswith("whsec_")
    assert (receiver.origin, receiver.events) == ("https://hooks.slack.com", ["dead_letter", "recovery", "lateness"])
    assert (receiver.since, receiver.changed_by) == (noon, "ann")
    job = receiver.job
    assert (job.key, job.task, job.queue, job.owner) == ("notifications.ops", "onbeat.notify", "http", "notifications")
    assert (job.max_attempts, job.state) == (8, JobState.ACTIVE)
    assert receiver.secret is not None
    assert receiver.secret.name == "notifications.ops"


def test_what_is_secret_of_it_is_sealed(noon: datetime) -> None:
    a_receiver("slack", now=noon, template="slack", url=URL)
    a_receiver("duty", now=noon, template="pagerduty", url="", routing_key=ROUTING_KEY)
    slack, duty = receivers.find("slack"), receivers.find("duty")
    assert vault.opened(slack.sealed_url) == URL
    assert (vault.opened(duty.sealed_url), vault.opened(duty.sealed_key)) == (PAGERDUTY_URL, ROUTING_KEY)
    rows = [repr(row) for model in apps.get_models() for row in model._default_manager.values()]
    for secret in ("xyzXYZxyz", ROUTING_KEY):
        assert [row for row in rows if secret in row] == []


def test_a_setting_on_what_jobs_may_run_does_not_hinder_it(noon: datetime, settings: Any) -> None:
    settings.ONBEAT_JOBS_ALLOWED_TASKS = ["billing.*"]
    a_receiver(now=noon)
    assert Job.objects.filter(key="notifications.ops").exists()


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"name": "a b"}, "name", "1 to 100 letters"),
        ({"url": ""}, "url", "missing"),
        ({"url": "ftp://x/y"}, "url", "must begin with https://"),
        ({"url": "https://10.0.0.1/xyzXYZxyz"}, "url", "ONBEAT_CALLBACKS_NETWORKS"),
        ({"url": "https://example.com:22/xyzXYZxyz"}, "url", "ONBEAT_CALLBACKS_PORTS"),
        ({"url": "https://ann:xyzXYZxyz@example.com/"}, "url", "user or password"),
        ({"template": "teams"}, "template", "one of standard, slack, pagerduty"),
        ({"template": "pagerduty"}, "routing_key", "20 to 64 letters and digits"),
        ({"template": "pagerduty", "routing_key": "xyzXYZxyz!"}, "routing_key", "20 to 64 letters and digits"),
        ({"routing_key": ROUTING_KEY}, "routing_key", "Only the template pagerduty"),
        ({"events": []}, "events", "some of failure, dead_letter"),
        ({"events": ["dead_leter"]}, "events", "did you mean 'dead_letter'?"),
        ({"events": ["recovery"]}, "events", "name another event beside it"),
        ({"events": ["test"]}, "events", "There is no event 'test'"),
        ({"jobs": ["dayly"]}, "jobs", "did you mean 'daily'?"),
        ({"jobs": ["a b"]}, "jobs", "must be the key of a job"),
        ({"jobs": ["x*"] * 201}, "jobs", "may name 200 jobs, not 201"),
        ({"late_after_seconds": 0}, "late_after_seconds", "1 to 2592000"),
        ({"late_after_seconds": True}, "late_after_seconds", "1 to 2592000"),
        ({"most_per_hour": 1001}, "most_per_hour", "1 to 1000"),
        ({"secret": "nobody"}, "secret", "There is no secret 'nobody'"),
        ({"secret": "token"}, "secret", "is for header, not for signing"),
        ({"secret": "elsewhere"}, "secret", "is not for hooks.slack.com"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(
    noon: datetime, fields: dict[str, Any], field: str, said: str
) -> None:
    a_job(key="daily", now=noon)
    kept_secrets.keep("token", SecretUse.HEADER, value="abc")
    kept_secrets.keep("elsewhere", SecretUse.SIGNING, hosts=["api.example.com"])
    wanted: dict[str, Any] = {"name": "ops", "url": URL, **fields}
    with pytest.raises(InvalidReceiver) as refused:
        receivers.create(wanted.pop("name"), **wanted, now=noon)
    assert (refused.value.field, said in str(refused.value)) == (field, True), str(refused.value)
    assert "xyzXYZxyz" not in str(refused.value)
    assert not Receiver.objects.exists()
    assert not Job.objects.filter(key__startswith="notifications").exists()
    assert Secret.objects.count() == 2


def test_a_name_is_there_once(noon: datetime) -> None:
    a_receiver(now=noon)
    with pytest.raises(InvalidReceiver, match="already; choose another name"):
        a_receiver(now=noon)
    a_job(key="notifications.taken", now=noon)
    with pytest.raises(InvalidReceiver, match="already; choose another name"):
        a_receiver("taken", now=noon, template="slack")
    assert Receiver.objects.count() == 1


def test_one_that_is_not_there_has_its_nearest_named(noon: datetime) -> None:
    a_receiver("on-call", now=noon)
    with pytest.raises(NoSuchReceiver, match="did you mean 'on-call'"):
        receivers.find("oncall")
    with pytest.raises(NoSuchReceiver, match="notifications create"):
        receivers.find("\0")


def test_a_change_changes_what_is_named_and_keeps_the_rest(noon: datetime) -> None:
    a_receiver("duty", now=noon, template="pagerduty", url="", routing_key=ROUTING_KEY)
    changed = receivers.change(
        "duty", events=["failure"], most_per_hour=5, url="", routing_key="", by="bob", now=noon + timedelta(hours=1)
    )
    assert (changed.events, changed.most_per_hour, changed.changed_by) == (["failure"], 5, "bob")
    assert (changed.since, changed.changed_at) == (noon, noon + timedelta(hours=1))
    assert vault.opened(changed.sealed_key) == ROUTING_KEY
    with pytest.raises(InvalidReceiver, match="A receiver has no field 'colour'"):
        receivers.change("duty", colour="red")
    slack = receivers.change("duty", template="slack", url=URL)
    assert (slack.sealed_key, slack.origin) == ("", "https://hooks.slack.com")
    with pytest.raises(InvalidReceiver, match="routing key must be"):
        receivers.change("duty", template="pagerduty")
    with pytest.raises(InvalidReceiver, match="The standard template is signed"):
        receivers.change("duty", template="standard")
    kept_secrets.keep("billing", SecretUse.SIGNING)
    assert receivers.change("duty", template="standard", secret="billing").template == Template.STANDARD


def test_a_job_that_is_gone_by_now_does_not_hinder_a_change(noon: datetime) -> None:
    job = a_job(key="daily", now=noon)
    a_receiver(now=noon, jobs=["daily"])
    definitions.archive(job, now=noon)
    assert receivers.change("ops", jobs=["daily", "x*"]).jobs == ["daily", "x*"]


def test_who_wants_less_is_told_no_more_of_what_began(noon: datetime) -> None:
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    look(noon + timedelta(minutes=1))
    assert Trouble.objects.count() == 1
    receivers.change("ops", jobs=["other.*"])
    assert not Trouble.objects.exists()


def test_a_change_makes_the_job_anew_if_somebody_archived_it(noon: datetime) -> None:
    receiver = a_receiver(now=noon)
    definitions.archive(receiver.job, now=noon)
    with pytest.raises(InvalidReceiver, match="ARCHIVED"):
        receivers.send_test("ops")
    assert receivers.change("ops", most_per_hour=3).job.state == JobState.ACTIVE
    assert Execution.objects.get(pk=receivers.send_test("ops").execution_id).job_id != receiver.job_id


def test_a_removed_receiver_leaves_its_history_and_nothing_else(noon: datetime) -> None:
    a_receiver(now=noon)
    receivers.remove("ops", by="ann", now=noon)
    assert Job.objects.get(key="notifications.ops").state == JobState.ARCHIVED
    assert not Secret.objects.exists()
    a_receiver(now=noon)  # its name is free again


def test_a_secret_that_somebody_else_keeps_stays(noon: datetime) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING)
    a_receiver(now=noon, secret="billing")
    with pytest.raises(SecretInUse, match="used by the receiver 'ops'"):
        kept_secrets.remove("billing")
    receivers.remove("ops")
    assert Secret.objects.get().name == "billing"
    kept_secrets.remove("billing")


def test_what_is_sealed_is_sealed_anew_with_the_others(noon: datetime, settings: Any) -> None:
    a_receiver("duty", now=noon, template="pagerduty", url="", routing_key=ROUTING_KEY)
    kept_secrets.keep("billing", SecretUse.SIGNING)
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = ["k" * 32]
    assert kept_secrets.reseal() == 3
    settings.SECRET_KEY = "another"
    assert vault.opened(receivers.find("duty").sealed_key) == ROUTING_KEY
    assert kept_secrets.that_cannot_be_opened() == []
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = []
    assert kept_secrets.that_cannot_be_opened() == ["billing", "duty"]
    with pytest.raises(kept_secrets.InvalidSecret, match="Nothing was changed"):
        kept_secrets.reseal()
