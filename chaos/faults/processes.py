"""Processes that are killed, told to stop and frozen: at any moment, or exactly at a step of their work."""

import os
import signal
import time
from pathlib import Path

from chaos.inside import TAKEN
from chaos.plan import Fault
from chaos.world import World

# So long it stands still at least. It says that it is there a moment before it stops, and must not be woken too soon.
_SHORTEST_FREEZE_SECONDS = 2.0
_SAYS_WITHIN_SECONDS = 5.0  # who has an order in hand


def kill(world: World, fault: Fault) -> bool:
    """SIGKILL to it and all that it started."""
    return bool(world.platform.signal(fault.whom, signal.SIGKILL, everybody=True))


def kill_parent(world: World, fault: Fault) -> bool:
    """SIGKILL to the parent alone: its children find out by themselves."""
    return bool(world.platform.signal(fault.whom, signal.SIGKILL))


def kill_child(world: World, fault: Fault) -> bool:
    children = sorted(world.platform.places[fault.whom].children())
    if not children:
        return False
    try:
        os.kill(children[int(fault.draw * len(children))], signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def tell_to_stop(world: World, fault: Fault) -> bool:
    """SIGTERM to the process alone, as a supervisor does. Nobody waits for its end: the next starts after it."""
    return bool(world.platform.signal(fault.whom, signal.SIGTERM))


def freeze(world: World, fault: Fault) -> bool:
    """SIGSTOP to it and all that it started; it goes on as if no time had passed."""
    pid = world.platform.signal(fault.whom, signal.SIGSTOP, everybody=True)
    time.sleep(fault.seconds)
    return world.platform.go_on(fault.whom, pid)


def kill_at_step(world: World, fault: Fault) -> bool:
    return _end_at_step(world, fault, "kill-all")


def kill_child_at_step(world: World, fault: Fault) -> bool:
    if fault.whom == "callbacks":  # its children are threads
        return _end_at_step(world, fault, "kill")
    return bool(_at_step(world, fault, "kill", within=fault.seconds))


def freeze_at_step(world: World, fault: Fault) -> bool:
    """The wait for the step is a part of its time: nobody else strikes there meanwhile."""
    over_at = time.monotonic() + fault.seconds
    group = _at_step(world, fault, "freeze", within=fault.seconds - _SHORTEST_FREEZE_SECONDS)
    if not group:
        return False
    time.sleep(max(_SHORTEST_FREEZE_SECONDS, over_at - time.monotonic()))
    world.platform.go_on(fault.whom, group)
    return True


def _end_at_step(world: World, fault: Fault, deed: str) -> bool:
    world.platform.expect_end(fault.whom)
    group = 0
    try:
        group = _at_step(world, fault, deed, within=fault.seconds)
    finally:
        world.platform.tell_whose_end(fault.whom, group)
    return bool(group)


def _at_step(world: World, fault: Fault, deed: str, *, within: float) -> int:
    """Give the order, and see whether somebody comes to that step soon; if nobody does, take it back.

    The process group of who took it, which need not be the one that was there when it was given; 0 if nobody did.
    """
    order = world.orders / fault.whom
    taken = order.with_suffix(TAKEN)
    taken.unlink(missing_ok=True)
    unfinished = world.orders / f"{fault.whom}.new"
    unfinished.write_text(f"{fault.detail} {deed}")
    unfinished.rename(order)
    _wait_for(taken, within)
    try:
        order.unlink()
    except FileNotFoundError:  # somebody has it in hand, and is about to say who it is
        _wait_for(taken, _SAYS_WITHIN_SECONDS)
    return int(taken.read_text()) if taken.exists() else 0


def _wait_for(file: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not file.exists():
        time.sleep(0.05)
