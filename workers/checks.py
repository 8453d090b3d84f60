"""System checks of the workers app."""

from typing import Any

from celery import current_app
from django.conf import settings
from django.core import checks

from executions import queues
from executions.checks import TAG
from workers import pools


def register() -> None:
    for check in (
        living_workers_are_not_rescued,
        messages_outlive_their_worker,
        workers_read_what_is_written,
        plain_tasks_stay_with_us,
        pools_are_tried,
        results_and_limits_are_as_jobs_say,
    ):
        checks.register(check, TAG)


def living_workers_are_not_rescued(**_kwargs: Any) -> list[checks.CheckMessage]:
    if settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS >= 2 * settings.ONBEAT_WORKERS_HEARTBEAT_SECONDS:
        return []
    return [
        checks.Error(
            "A worker counts as lost after a single late heartbeat: its running work would be started a second time.",
            hint="Make ONBEAT_WORKERS_LOST_AFTER_SECONDS at least twice ONBEAT_WORKERS_HEARTBEAT_SECONDS.",
            id="onbeat_workers.E001",
        )
    ]


def messages_outlive_their_worker(**_kwargs: Any) -> list[checks.CheckMessage]:
    """Nothing is lost without these: what a dead worker had taken comes back, only later and at the cost of a look."""
    conf = current_app.conf
    found: list[checks.CheckMessage] = []
    if not conf.task_acks_late:
        found.append(
            checks.Warning(
                "Messages are acknowledged before their task runs: those of a worker that dies come back late.",
                hint="Set CELERY_TASK_ACKS_LATE to True.",
                id="onbeat_workers.W001",
            )
        )
    if not conf.task_reject_on_worker_lost:
        found.append(
            checks.Warning(
                "The message of a child that was killed is acknowledged: its execution waits to be rescued.",
                hint="Set CELERY_TASK_REJECT_ON_WORKER_LOST to True.",
                id="onbeat_workers.W002",
            )
        )
    if conf.worker_prefetch_multiplier != 1:
        found.append(
            checks.Warning(
                "Workers take messages ahead of their turn: others stand idle meanwhile, and priorities are passed by.",
                hint="Set CELERY_WORKER_PREFETCH_MULTIPLIER to 1.",
                id="onbeat_workers.W003",
            )
        )
    return found


def workers_read_what_is_written(**_kwargs: Any) -> list[checks.CheckMessage]:
    conf = current_app.conf
    accepted = set(conf.accept_content or ())
    found: list[checks.CheckMessage] = []
    if not accepted & {"json", "application/json"}:
        found.append(
            checks.Error(
                "Workers do not read JSON, and all messages of executions are JSON: each would be a dead letter.",
                hint='Set CELERY_ACCEPT_CONTENT to ["json"].',
                id="onbeat_workers.E002",
            )
        )
    if others := sorted({*accepted, conf.task_serializer} - {"json", "application/json"}):
        found.append(
            checks.Warning(
                f"Messages may be {', '.join(others)}: who can publish can make workers run code of theirs (pickle), "
                "or send what other languages cannot read.",
                hint='Set CELERY_ACCEPT_CONTENT to ["json"] and CELERY_TASK_SERIALIZER to "json".',
                id="onbeat_workers.W004",
            )
        )
    return found


def plain_tasks_stay_with_us(**_kwargs: Any) -> list[checks.CheckMessage]:
    """Where a plain `.delay()` goes, which is none of the jobs' business."""
    conf = current_app.conf
    routes = conf.task_routes if isinstance(conf.task_routes, dict) else {}
    names = [conf.task_default_queue, *(route.get("queue") for route in routes.values() if isinstance(route, dict))]
    elsewhere = sorted({str(name) for name in names if name and queues.job_queue_name(str(name)) is None})
    found: list[checks.CheckMessage] = []
    if elsewhere:
        found.append(
            checks.Warning(
                f"A plain .delay() may go to {', '.join(elsewhere)}, without our prefix: `./onbeat worker` does not "
                "read it, and what is rejected there is no dead letter of ours.",
                hint=f"Let CELERY_TASK_DEFAULT_QUEUE and CELERY_TASK_ROUTES name queues that begin with "
                f"{queues.prefix()!r}, or start workers for these.",
                id="onbeat_workers.W005",
            )
        )
    if not conf.broker_pool_limit:
        found.append(
            checks.Warning(
                "Each plain .delay() opens a connection to the broker of its own.",
                hint="Leave CELERY_BROKER_POOL_LIMIT at 10, or set it to how many threads publish.",
                id="onbeat_workers.W006",
            )
        )
    return found


def pools_are_tried(**_kwargs: Any) -> list[checks.CheckMessage]:
    pool = str(current_app.conf.worker_pool)
    if not any(name in pool for name in pools.UNTESTED):
        return []
    return [
        checks.Error(
            pools.refusal(pool),
            hint="Remove CELERY_WORKER_POOL, or set it to prefork, threads or solo.",
            id="onbeat_workers.E003",
        )
    ]


def results_and_limits_are_as_jobs_say(**_kwargs: Any) -> list[checks.CheckMessage]:
    conf = current_app.conf
    found: list[checks.CheckMessage] = []
    if not conf.result_backend or str(conf.result_backend).startswith("disabled"):
        found.append(
            checks.Warning(
                "There is no result backend: the results of jobs with keep_result, and of plain tasks, are lost.",
                hint="Set CELERY_RESULT_BACKEND to django-db.",
                id="onbeat_workers.W007",
            )
        )
    limits = [limit for limit in (conf.task_time_limit, conf.task_soft_time_limit) if limit]
    if limits and min(limits) < settings.ONBEAT_WORKERS_TIMEOUT_SECONDS:
        found.append(
            checks.Warning(
                f"Celery's time limit of {min(limits):g} s ends attempts before ONBEAT_WORKERS_TIMEOUT_SECONDS does; "
                "only jobs that name their own timeout are not touched by it.",
                hint="Remove CELERY_TASK_TIME_LIMIT and CELERY_TASK_SOFT_TIME_LIMIT, or make them longer.",
                id="onbeat_workers.W008",
            )
        )
    return found
