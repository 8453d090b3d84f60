"""Health: what each app says about itself, asked in one place.

Apps register a check when they are loaded, so that this module need not know them. Invariant: a check looks at work
that really happened, not at whether a process exists, and it never shows a secret.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

from executions.clock import database_now


@dataclass(frozen=True)
class Finding:
    is_well: bool
    says: str
    is_vital: bool = True


Check = Callable[[datetime], Finding]
_checks: dict[str, Check] = {}
_is_migrated = False


def register(name: str, check: Check) -> None:
    _checks[name] = check


def live(_request: HttpRequest) -> JsonResponse:
    """The web process answers."""
    return JsonResponse({"status": "live"})


def ready(_request: HttpRequest) -> JsonResponse:
    """The platform does its work: 200, "degraded" if something is amiss that it can bear, or 503 "not ready"."""
    findings = look()
    is_ready = all(finding.is_well for finding in findings.values() if finding.is_vital)
    is_all_well = all(finding.is_well for finding in findings.values())
    body = {
        "status": "ready" if is_all_well else "degraded" if is_ready else "not ready",
        "checks": {name: {"ok": finding.is_well, "says": finding.says} for name, finding in findings.items()},
    }
    return JsonResponse(body, status=200 if is_ready else 503)


def look() -> dict[str, Finding]:
    """What each check finds; of those after a database that is away, nothing."""
    findings = {}
    try:
        now = database_now()
        for name, check in _checks.items():
            findings[name] = check(now)
            if name == "database" and not findings[name].is_well:
                break  # the others read tables that may not be there
    except Error as error:
        connection.close()
        findings["database"] = Finding(is_well=False, says=f"the database does not answer: {type(error).__name__}")
    return findings


def database(_now: datetime) -> Finding:
    missing = missing_migrations()
    if missing:
        return Finding(is_well=False, says=f"{missing} migrations are missing; run `./onbeat migrate`")
    return Finding(is_well=True, says=f"{connection.vendor} answers, migrated")


def missing_migrations() -> int:
    """Reading all migration files takes a while, so a process that has once seen them applied does not look again."""
    global _is_migrated
    if _is_migrated:
        return 0
    missing = len(unapplied_migrations())
    _is_migrated = not missing
    return missing


def unapplied_migrations() -> list[str]:
    """Their names, looked up anew."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]
