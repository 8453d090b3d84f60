"""The doctor looks at schedules that are declared beside tasks."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import current_app, shared_task

from jobs import declared, definitions, targets
from jobs.declared import scheduled
from tests.at_terminal import typed
from tests.doctoring import doctor
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(declared, "_declared", [])
    before = targets.known_tasks()
    yield
    for name in targets.known_tasks() - before:
        current_app.tasks.pop(name)


def declare(when: Any, name: str = "tests.code.poll", **fields: Any) -> None:
    def poll() -> None:
        """Nothing to do."""

    scheduled(when, **fields)(shared_task(name=name)(poll))


def test_what_is_as_declared_is_well() -> None:
    assert doctor("code").says("code") == "0 jobs declared beside tasks"
    declare("0 3 * * *")
    typed("jobs", "sync")
    told = doctor("code")
    assert (told.ids, told.says("code")) == ([], "1 job declared beside tasks")


def test_a_declaration_that_cannot_be_is_an_error() -> None:
    declare("0 99 * * *")
    finding = doctor("code").only("code.E01")
    assert finding["says"].startswith(f"tests.code.poll in {__name__}: The hour '99'")


@pytest.mark.parametrize("fields", [{"quue": "mail"}, {"priority": 11}])
def test_a_declaration_that_cannot_be_stored_is_an_error(fields: dict[str, Any]) -> None:
    declare("0 3 * * *", **fields)
    assert doctor("code").only("code.E01")["says"].startswith("tests.code.poll: ")


def test_what_stands_beside_no_task_is_an_error() -> None:
    scheduled("0 3 * * *", key="odd")(lambda: None)
    assert "is no Celery task" in doctor("code").only("code.E01")["says"]


def test_jobs_that_differ_from_the_code_are_a_warning() -> None:
    declare("0 3 * * *")
    assert doctor("code").only("code.W01")["says"] == "Not as declared: tests.code.poll."
    typed("jobs", "sync")
    definitions.change("tests.code.poll", version=1, queue="other")
    assert doctor("code").only("code.W01")["facts"] == {"jobs": 1}


def test_jobs_that_the_code_declares_no_longer_are_a_warning() -> None:
    declare("0 3 * * *")
    typed("jobs", "sync")
    declared._declared.clear()
    assert doctor("code").only("code.W02")["says"] == "Declared no longer: tests.code.poll."
