"""Beats, workers and commands load no page of the web process: they start sooner and are smaller without."""

import ast
import subprocess
import sys

from django.core.checks import registry, run_checks

from executions.checks import TAG
from launcher.folders import ROOT

_OF_THE_WEB = ("console.jobs", "console.executions", "api.urls", "rest_framework.views", "drf_spectacular.plumbing")
_OURS = (
    "access",
    "api",
    "beat",
    "callbacks",
    "console",
    "executions",
    "jobs",
    "scheduler_project",
    "terminal",
    "workers",
)


def loaded(after: str) -> set[str]:
    """What a process has loaded of the web's, once it did what its start does."""
    asked = f"[name for name in {_OF_THE_WEB!r} if name in sys.modules]"
    program = f"import sys, django; from scheduler_project.celery import app; django.setup(); {after}; print({asked})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stdout))


def test_a_beat_loads_no_page() -> None:
    beat = "from django.core.management import load_command_class as load; beat = load('beat', 'run_beat')"
    assert loaded(f"{beat}; beat.check(tags=beat.requires_system_checks)") == set()


def test_a_worker_loads_no_page() -> None:
    assert loaded("app.loader.import_default_modules(); app.finalize()") == set()


def test_the_addresses_bring_the_pages() -> None:
    assert "console.jobs" in loaded("import scheduler_project.urls")


def test_every_check_of_ours_is_one_that_beats_and_workers_ask_for() -> None:
    checks = [check for check in registry.registry.registered_checks if check.__module__.split(".")[0] in _OURS]
    assert len(checks) > 5
    assert [check.__name__ for check in checks if TAG not in check.tags] == []  # type: ignore[attr-defined]


def test_the_classes_of_the_admin_pass_the_checks_of_django() -> None:
    import scheduler_project.urls  # noqa: F401

    assert run_checks(tags=["admin"]) == []
