"""The only writer of an execution's state.

Each verb is one conditional change whose row count is looked at; a verb that ends an attempt also records it, in the
same transaction. Every step is a row of `executions.states.TRANSITIONS`. Invariant: whoever claims, finishes or
rescues names the attempt; zero rows means that somebody else was first, which is an ordinary outcome and not an error.

For a job with a limit, every verb that starts or ends an attempt holds the job's lock (`executions/concurrency.py`),
and every end wakes one waiter. A waiter also comes back by itself after a while, so a lost wake-up is only a delay.
"""

from executions.lifecycle.awaited import await_end, claim_from_elsewhere, end_unheard, unheard
from executions.lifecycle.before import (
    SETTLED,
    Split,
    explain,
    hold,
    hurry,
    mark_queued,
    move,
    plan,
    plan_runs,
    record_skipped,
    revive,
    skip,
    split,
    unplan,
    unplan_all,
)
from executions.lifecycle.ends import cancel, fail, finish_of, lose, record_refused, rescue, stop, succeed, wake
from executions.lifecycle.fires import plan_fires
from executions.lifecycle.running import (
    LOOK_AGAIN_AFTER,
    MOVED,
    PROMPT,
    checkpoint,
    claim,
    claim_of,
    heartbeat,
    postpone,
    progress,
    to_stop,
)

__all__ = [
    "LOOK_AGAIN_AFTER",
    "MOVED",
    "PROMPT",
    "SETTLED",
    "Split",
    "await_end",
    "cancel",
    "checkpoint",
    "claim",
    "claim_from_elsewhere",
    "claim_of",
    "end_unheard",
    "explain",
    "fail",
    "finish_of",
    "heartbeat",
    "hold",
    "hurry",
    "lose",
    "mark_queued",
    "move",
    "plan",
    "plan_fires",
    "plan_runs",
    "postpone",
    "progress",
    "record_refused",
    "record_skipped",
    "rescue",
    "revive",
    "skip",
    "split",
    "stop",
    "succeed",
    "to_stop",
    "unheard",
    "unplan",
    "unplan_all",
    "wake",
]
