"""Guards of the product, broken on purpose: a judge who finds nothing then is no judge.

Named in the environment of a beat or worker of the harness. Each is broken as a hurried change might break it.
"""

import os
from typing import Any

GUARD = "CHAOS_BROKEN"
GUARDS = {
    "claim": "a worker claims an execution, whatever attempt its message is for",
    "mark": "a beat marks executions as queued, and publishes them then",
    "lease": "a beat that took a lease records the fire: neither version nor constraint is asked",
}


def break_what_is_named() -> None:
    match os.environ.get(GUARD, ""):
        case "claim":
            _claim_without_attempt()
        case "mark":
            _mark_before_publish()
        case "lease":
            _trust_the_lease()


# What stood in the way of two rows for one fire; the harness runs this before the beats start.
WITHOUT_CONSTRAINT = "DROP INDEX onbeat_execution_once_per_fire"


def _claim_without_attempt() -> None:
    from executions import lifecycle
    from executions.models import Execution
    from executions.outcomes import Claim
    from executions.states import CLAIMABLE, State

    def claim(execution_id: Any, attempt: int, *, worker: str, now: Any) -> Claim | None:
        claimable = Execution.objects.with_id(execution_id).filter(state__in=CLAIMABLE)
        started = claimable.update(state=State.RUNNING, worker=worker, started_at=now, heartbeat_at=now, reason="")
        return Claim(execution_id, attempt, worker, now) if started else None

    lifecycle.claim = claim


def _mark_before_publish() -> None:
    from executions import lifecycle
    from executions.clock import database_now
    from executions.dispatch import Publisher

    send = Publisher.send

    def mark_and_send(publisher: Publisher, executions: Any) -> Any:
        lifecycle.mark_queued(executions, now=database_now())
        return send(publisher, executions)

    Publisher.send = mark_and_send  # type: ignore[assignment, method-assign]


def _trust_the_lease() -> None:
    from beat import planning
    from executions import lifecycle

    def record(plans: Any, *, now: Any) -> Any:
        planning._advance(plans)
        fires = [schedule.fire(fire_time) for schedule, plan in plans for fire_time in plan.fire_times]
        stretches = [schedule.left_out(plan.skipped) for schedule, plan in plans if plan.skipped]
        lifecycle.plan_fires(fires, stretches, now=now)
        return plans

    planning._record = record
