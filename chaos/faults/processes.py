"""Processes that are killed, told to stop and frozen: at any moment, or exactly at a step of their work."""

import os
import signal
import time

from chaos.inside import TAKEN
from chaos.plan import Fault
from chaos.world import World


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
    return bool(pid) and _go_on(pid)


def kill_at_step(world: World, fault: Fault) -> bool:
    world.platform.expect_end(fault.whom)
    return _at_step(world, fault, "kill-all")


def kill_child_at_step(world: World, fault: Fault) -> bool:
    if fault.whom == "callbacks":  # its children are threads
        world.platform.expect_end(fault.whom)
    return _at_step(world, fault, "kill")


def freeze_at_step(world: World, fault: Fault) -> bool:
    pid = world.platform.places[fault.whom].pid
    is_taken = _at_step(world, fault, "freeze")
    time.sleep(fault.seconds if is_taken else 0)
    _go_on(pid)
    return is_taken


def _at_step(world: World, fault: Fault, deed: str) -> bool:
    """Give the order, and see whether somebody comes to that step soon; if nobody does, take it back."""
    order = world.orders / fault.whom
    order.with_suffix(TAKEN).unlink(missing_ok=True)
    unfinished = world.orders / f"{fault.whom}.new"
    unfinished.write_text(f"{fault.detail} {deed}")
    unfinished.rename(order)
    deadline = time.monotonic() + max(fault.seconds, 3)
    while time.monotonic() < deadline and not order.with_suffix(TAKEN).exists():
        time.sleep(0.05)
    order.unlink(missing_ok=True)
    return order.with_suffix(TAKEN).exists()


def _go_on(pid: int) -> bool:
    try:
        os.killpg(pid, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True
