"""Celery's remote control: a revoke of an execution is a cancel, asked for in the database.

Celery keeps revoked ids in the memory of each worker, where a restart forgets them, and stops a task by a signal that
may hit another one. Flower and `celery control` send these commands to all workers; whoever is first cancels.
"""

import uuid
from typing import Any

from celery.utils.functional import maybe_list
from celery.worker import control
from celery.worker.control import control_command

from workers import recorder

_revoke_plain: Any = control.Panel.data["revoke"]
_OURS = 7  # the version of our ids; Celery's own have another


@control_command(variadic="task_id", signature="[id1 [id2 [... [idN]]]]")
def revoke(state: Any, task_id: Any, terminate: bool = False, signal: Any = None, **kwargs: Any) -> Any:
    """Revoke task by task id (or list of ids). An execution is cancelled, wherever it is."""
    ids = [str(each) for each in maybe_list(task_id) or []]
    ours = [found for found in map(_execution_id, ids) if found is not None]
    others = [each for each in ids if _execution_id(each) is None]
    if ours:
        recorder.put(recorder.Revoke(tuple(ours)))
    if others:
        return _revoke_plain(state, others, terminate=terminate, signal=signal, **kwargs)
    return {"ok": f"executions {', '.join(map(str, ours))} are cancelled"}


@control_command(variadic="task_id", args=[("signal", str)], signature="<signal> [id1 [id2 [... [idN]]]]")
def terminate(state: Any, signal: Any, task_id: Any, **_kwargs: Any) -> Any:
    """Terminate task by task id (or list of ids). An execution is cancelled, wherever it is."""
    return revoke(state, task_id, terminate=True, signal=signal)


def _execution_id(text: str) -> uuid.UUID | None:
    try:
        found = uuid.UUID(text)
    except ValueError:
        return None
    return found if found.version == _OURS else None
