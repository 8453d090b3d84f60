"""Imports point one way: beat | callbacks → workers → jobs → executions."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAY_IMPORT = {
    "executions": set(),
    "jobs": {"executions"},
    "access": {"executions", "jobs"},
    # The part that beats need imports neither callbacks nor workers: see below.
    "beat": {"access", "jobs", "executions", "notifications"},
    "workers": {"jobs", "executions"},
    "callbacks": {"access", "workers", "jobs", "executions"},
    "notifications": {"callbacks", "workers", "jobs", "executions"},
    "api": {"access", "beat", "callbacks", "notifications", "workers", "jobs", "executions"},
    "console": {"access", "api", "beat", "callbacks", "notifications", "workers", "jobs", "executions"},
    "terminal": {"access", "api", "beat", "callbacks", "notifications", "workers", "jobs", "executions"},
    "launcher": set(),
    "chaos": {"access", "beat", "executions", "jobs", "launcher", "scheduler_project", "workers"},
    "scheduler_project": {"access", "api", "callbacks", "console", "executions", "jobs", "beat", "workers", "launcher"},
}
PURE = ["executions/states.py", "executions/outcomes.py", "executions/retry.py", "executions/identity.py"]
PURE += ["jobs/recurrence.py", "jobs/cron.py", "jobs/refusals.py", "jobs/dst.py", "jobs/misfires.py"]
PURE += ["executions/outgoing.py", "executions/confirms.py", "executions/histogram.py", "access/roles.py"]
PURE += ["jobs/wording.py", "jobs/day_wording.py", "jobs/series.py", "jobs/stretches.py"]
PURE += ["jobs/upcoming.py", "jobs/differences.py", "access/gcra.py", "api/names.py", "jobs/signing.py"]
PURE += ["jobs/addresses.py", "jobs/web_address.py", "jobs/http_target.py", "callbacks/refusals.py"]
PURE += ["jobs/shifts.py", "jobs/forecast.py", "executions/words.py", "console/jobs/policies.py"]
PURE += ["jobs/clock_changes.py", "jobs/verdicts.py"]
PURE += ["console/dashboard/charts.py", "callbacks/verdicts.py", "callbacks/redaction.py"]
PURE += ["terminal/doctor/findings.py", "executions/rabbitmq_api.py"]
PURE += [f"chaos/{name}.py" for name in ("plan", "walk", "judge", "policies", "journal", "ledger")]
PURE += [f"chaos/rules/{name}.py" for name in ("fires", "runs", "ends", "callers")]
PURE += [f"jobs/moving_in/{name}.py" for name in ("sources", "keys", "celery_cron", "clock_changes", "translation")]
PURE += [f"notifications/{name}.py" for name in ("kinds", "masking", "wording", "bodies", "refusals")]
PURE += [f"benchmarks/report/{name}.py" for name in ("growth", "plots", "wording")]
FORBIDDEN_NAMES = {"utils", "helpers", "services", "common", "managers", "constants"}
# A person's word for PostgreSQL, Redis and RabbitMQ, and the command's name: not a drawer for odds and ends.
ALLOWED_NAMES = {ROOT / "launcher" / "services.py"}


def modules(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if "migrations" not in path.parts]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_between_the_packages_point_one_way(package: str) -> None:
    ours = set(MAY_IMPORT) - {package} - MAY_IMPORT[package]
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imported(path)
        if name.split(".")[0] in ours
    ]
    assert wrong == []


def test_access_takes_nothing_of_jobs_but_its_refusals() -> None:
    names = {name for path in modules("access") for name in imported(path) if name.split(".")[0] == "jobs"}
    assert names == {"jobs.refusals"}


def test_of_notifications_the_delivery_alone_knows_workers_and_callbacks() -> None:
    """So that beats, which look for what is to be told, load neither."""
    knowing = {
        path.name
        for path in modules("notifications")
        for name in imported(path)
        if name.split(".")[0] in {"callbacks", "workers"}
    }
    assert knowing == {"tasks.py"}


@pytest.mark.parametrize("path", PURE)
def test_pure_modules_import_neither_django_nor_celery(path: str) -> None:
    roots = {name.split(".")[0] for name in imported(ROOT / path)}
    assert roots.isdisjoint({"django", "celery", "kombu", "redis"})


def test_the_launcher_needs_the_standard_library_only() -> None:
    import sys

    for path in [*modules("launcher"), ROOT / "onbeat"]:
        roots = {name.split(".")[0] for name in imported(path)} - {"launcher"}
        assert roots <= set(sys.stdlib_module_names), path


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    named = [path for package in MAY_IMPORT for path in modules(package) if path.stem in FORBIDDEN_NAMES]
    assert set(named) <= ALLOWED_NAMES


def test_no_module_passes_400_lines() -> None:
    long = [
        str(path.relative_to(ROOT))
        for path in [*(path for package in MAY_IMPORT for path in modules(package)), ROOT / "onbeat"]
        if len(path.read_text(encoding="utf-8").splitlines()) > 400
    ]
    assert long == []


def test_state_is_written_by_the_lifecycle_alone() -> None:
    """No `.update(…state=…)`, `state = …` on a row or save() of an execution elsewhere."""
    writers = []
    for package in ("executions", "jobs", "beat", "workers"):
        for path in modules(package):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                is_update = (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in ("update", "bulk_update")
                    and any(keyword.arg == "state" for keyword in node.keywords)
                )
                if is_update:
                    writers.append(str(path.relative_to(ROOT)))
    assert {str(Path(writer).parent) for writer in writers} == {"executions/lifecycle"}
