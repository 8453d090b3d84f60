"""`prepare`: an admin user and demo jobs on the first run, and nothing on the second."""

from io import StringIO

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import call_command
from django.db import connection

from executions import surroundings
from jobs.models import Job

pytestmark = pytest.mark.django_db


def prepare(demo: str = "always") -> str:
    output = StringIO()
    call_command("prepare", "--demo", demo, stdout=output)
    return output.getvalue()


@pytest.fixture(autouse=True)
def _no_password_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONBEAT_ADMIN_PASSWORD", raising=False)


def test_the_printed_password_opens_the_admin() -> None:
    line = next(line for line in prepare().splitlines() if line.startswith("admin user"))
    password = line.split("password: ")[1].split("  ")[0]
    assert authenticate(username="admin", password=password) is not None


def test_a_given_password_is_used_and_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONBEAT_ADMIN_PASSWORD", "correct horse battery")
    assert "correct horse" not in prepare()
    assert authenticate(username="admin", password="correct horse battery") is not None


def test_three_demo_jobs_are_made_once() -> None:
    prepare()
    assert set(Job.objects.values_list("key", flat=True)) == {"demo.pulse", "demo.report", "demo.flaky"}
    Job.objects.get(key="demo.flaky").delete()
    second = prepare()
    assert Job.objects.count() == 2
    assert "password" not in second
    assert get_user_model().objects.count() == 1


def test_demo_jobs_do_not_enter_a_real_database_by_accident(is_full: bool) -> None:
    prepare("embedded")
    assert Job.objects.count() == (0 if is_full else 3)
    prepare("never")


def test_it_says_what_it_is_connected_to_without_secrets(settings: object) -> None:
    settings.REDIS_URL = "redis://:hush-hush@localhost:6379/0"  # type: ignore[attr-defined]
    output = prepare()
    assert "redis     redis://localhost:6379/0" in output
    assert "hush-hush" not in output


@pytest.mark.full
@pytest.mark.parametrize(
    ("host", "port", "shown"),
    [("db1", "5432", "db1:5432"), ("db1,db2", "5433,5434", "db1:5433,db2:5434"), ("a,b", "5432", "a:5432,b:5432")],
)
def test_each_host_of_the_database_is_shown_with_its_port(
    host: str, port: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HOST": host, "PORT": port, "NAME": "onbeat"}.items():
        monkeypatch.setitem(connection.settings_dict, name, value)
    assert surroundings.in_words()["database"] == f"postgresql://{shown}/onbeat"
