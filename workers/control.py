"""Celery's remote control: a revoke of an execution is a cancel, asked for in the database; no answer has a password.

Celery keeps revoked ids in the memory of each worker, where a restart forgets them, and stops a task by a signal that
may hit another one. Flower and `celery control` send these commands to all workers; whoever is first cancels.
"""

import uuid
from typing import Any

from celery.app.defaults import DEFAULTS
from celery.utils.functional import maybe_list
from celery.utils.serialization import strtobool
from celery.worker import control
from celery.worker.control import control_command, inspect_command

from workers import recorder

_revoke_plain: Any = control.Panel.data["revoke"]
_conf_of_all: Any = control.Panel.data["conf"]
_report_with_all: Any = control.Panel.data["report"]
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


# Celery's own answers hold all settings of the project, and with them the passwords in the addresses of services.


@inspect_command(alias="dump_conf", signature="[include_defaults=False]", args=[("with_defaults", strtobool)])
def conf(state: Any, with_defaults: bool = False, **kwargs: Any) -> Any:
    """List Celery's configuration."""
    told: dict[str, Any] = _conf_of_all(state, with_defaults=with_defaults, **kwargs)
    return {name: value for name, value in told.items() if name in DEFAULTS}


@inspect_command()
def report(state: Any) -> Any:
    """Information about Celery's installation."""
    versions, _, _settings = _report_with_all(state)["ok"].strip().partition("\n\n")
    return {"ok": versions}


def _execution_id(text: str) -> uuid.UUID | None:
    try:
        found = uuid.UUID(text)
    except ValueError:
        return None
    return found if found.version == _OURS else None
