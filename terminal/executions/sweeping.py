"""Cancel or replay all executions that match: first how many, then the question, then a batch at a time.

Invariant: what is stored after it was counted is left alone.
"""

from dataclasses import replace
from typing import Any

from api.executions import deeds
from api.executions.filters import sought
from executions.clock import database_now
from executions.words import count
from jobs import sweeps
from jobs.sweeps import MOST_COUNTED, Deed
from terminal.executions.filters import said_in
from terminal.frame import Asked, Exit, Told

BATCH = sweeps.DEFAULT_BATCH
_DONE = {Deed.CANCEL: "cancelled", Deed.REPLAY: "replayed"}
_WHICH = {Deed.CANCEL: "not over", Deed.REPLAY: "over and not handled"}


def is_filtered(asked: Asked) -> bool:
    return bool(asked.given("job", "state", "trigger", "queue", "worker", "fingerprint", "since", "until"))


def sweep_all(deed: Deed, asked: Asked, *, note: str) -> Told:
    now = database_now()
    said = said_in(asked, now=now)
    wanted = replace(sought(said), created_before=now)
    number = sweeps.count(deed, wanted, now=now)
    asked.paper.say(f"{_many(number)} and {'is' if number == 1 else 'are'} {_WHICH[deed]}.")
    if not number:
        return Told(_data(0, 0, 0, is_done=False), (), Exit.DONE if asked["dry_run"] else Exit.FAILED)
    if asked["dry_run"] or not asked.agrees(f"{deed.capitalize()} {'it' if number == 1 else 'them'}?"):
        return Told(_data(number, 0, 0, is_done=False), ["Nothing was done."])
    done = stopping = 0
    last = None
    with asked.paper.progress(deed.capitalize(), number) as advance:
        while True:
            swept = deeds.sweep(deed, wanted, said=said, note=note, limit=BATCH, after=last, now=now, **asked.signature)
            done, stopping, last = done + swept.done, stopping + swept.asked_to_stop, swept.last
            advance(swept.done + swept.asked_to_stop)
            if last is None:
                break
    told = f"{count(done, 'execution')} {_DONE[deed]}" + (f", {stopping} asked to stop" if stopping else "")
    code = Exit.DONE if done or stopping else Exit.FAILED
    return Told(_data(number, done, stopping, is_done=True), [f"{told}."], code)


def _many(number: int) -> str:
    if number >= MOST_COUNTED:
        return f"More than {MOST_COUNTED:,} executions match"
    return f"{count(number, 'execution')} match{'es' if number == 1 else ''}"


def _data(matching: int, done: int, asked_to_stop: int, *, is_done: bool) -> dict[str, Any]:
    return {"is_done": is_done, "matching": matching, "done": done, "asked_to_stop": asked_to_stop}
