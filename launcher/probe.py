"""`./onbeat probe`: is a beat, a worker or the web process of this machine at its work? For containers and the like.

Without Django and without a database: it reads what beats and workers write of themselves (`executions/alive.py`), and
asks the web process. Invariant: what cannot be found out counts as not well, and says what was looked for. Ready: it
does its work. Live: it does not hang; where it can do nothing because something else is away, a restart would not help.
"""

import argparse
import http.client
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from launcher import processes
from launcher.refusal import Refusal

_FOLDER = "alive"
_FACTS: dict[str, Callable[[Any], Any]] = {
    "kind": str,
    "name": str,
    "pid": int,
    "began": str,
    "at": float,
    "silent_after_seconds": float,
    "is_ready": bool,
    "says": str,
}
# A beat waits half a minute for an answer of its database at most, and then says so.
_HANGS_AFTER_SECONDS = 90.0
_HOST, _PORT, _PATIENCE_SECONDS = "127.0.0.1", 8000, 5.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("./onbeat probe", description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=["beat", "worker", "web"], help="of the web process: the one at PORT, or 8000")
    parser.add_argument("--live", action="store_true", help="ask only whether it hangs, so that a restart would help")
    asked = parser.parse_args(arguments)
    is_well, says = _web(is_live=asked.live) if asked.kind == "web" else _files(asked.kind, is_live=asked.live)
    print(says)
    return 0 if is_well else 1


def _files(kind: str, *, is_live: bool) -> tuple[bool, str]:
    """Of all of this kind that run here: one that is not well is enough."""
    folder = (
        Path(os.environ.get("DATA_DIR", "").strip() or Path(__file__).resolve().parent.parent / "var").expanduser()
        / _FOLDER
    )
    said = [each for file in sorted(folder.glob(f"{kind}-*.json")) if (each := _read(file)) is not None]
    if not said:
        return False, f"No {kind} runs here: none has written to {folder} (DATA_DIR)."
    looks = [_look(each, is_live=is_live) for each in said]
    return all(is_well for is_well, _ in looks), "\n".join(says for _, says in looks)


def _read(file: Path) -> dict[str, Any] | None:
    """What a process says that still runs: not one that has its number now."""
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
        said = {name: kind(read[name]) for name, kind in _FACTS.items()}
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    if not processes.is_alive(said["pid"]) or said["began"] != processes.began(said["pid"]):
        return None
    return said if said["at"] <= time.monotonic() else None  # else it is of before a reboot


def _look(said: dict[str, Any], *, is_live: bool) -> tuple[bool, str]:
    silent = time.monotonic() - said["at"]
    who = f"{said['kind']} {said['name']}"
    if is_live:
        is_well = silent < _HANGS_AFTER_SECONDS
        return is_well, f"{who} {'goes round' if is_well else f'hangs: no sign of it for {silent:.0f} s'}"
    if silent > said["silent_after_seconds"]:
        return False, f"{who} is not ready: no sign of it for {silent:.0f} s; before that: {said['says']}"
    return said["is_ready"], f"{who} is {'ready' if said['is_ready'] else 'not ready'}: {said['says']}"


def _web(*, is_live: bool) -> tuple[bool, str]:
    port = os.environ.get("PORT", "").strip() or str(_PORT)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise Refusal(f"PORT must be a number from 1 to 65535, not {port!r}.")
    path = f"/health/{'live' if is_live else 'ready'}"
    connection = http.client.HTTPConnection(_HOST, int(port), timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(65_536)
    except (OSError, http.client.HTTPException) as error:
        return False, f"web does not answer at {_HOST}:{port}: {error or type(error).__name__}"
    finally:
        connection.close()
    return answer.status == 200, f"web answers {path} with {answer.status}: {_in_words(body)}"


def _in_words(body: bytes) -> str:
    try:
        said = json.loads(body)
        wrong = [f"{name}: {each['says']}" for name, each in said.get("checks", {}).items() if not each["ok"]]
        return "; ".join([str(said["status"]), *wrong])
    except (ValueError, KeyError, TypeError, AttributeError):
        return body[:200].decode(errors="replace")
