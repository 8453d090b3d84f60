"""A clock that is wrong, and a disk that is full."""

import time

from chaos.plan import Fault
from chaos.world import World

# How much of its disk RabbitMQ wants to be free. In bytes: the names of large units differ between its versions.
_MORE_THAN_THERE_IS, _USUAL = str(10**15), str(50 * 10**6)


def move_clock(world: World, fault: Fault) -> bool:
    """One beat sees another time than all others, from one moment to the next, and then the right one again."""
    if world.clock is None:
        return False
    _set(world, fault.detail)
    try:
        time.sleep(fault.seconds)
    finally:
        _set(world, "+0")
    return True


def _set(world: World, offset: str) -> None:
    assert world.clock is not None
    unfinished = world.clock.with_suffix(".new")
    unfinished.write_text(f"{offset}\n")
    unfinished.rename(world.clock)  # nobody reads half of it


def fill_disk(world: World, fault: Fault) -> bool:
    """PostgreSQL and Redis can write no more; RabbitMQ takes no more, as it does before its disk is full."""
    world.servers.control_rabbitmq("set_disk_free_limit", _MORE_THAN_THERE_IS)
    try:
        if not world.servers.has_small_disks:
            time.sleep(fault.seconds)
            return False
        with world.servers.full_disk():
            time.sleep(fault.seconds)
    finally:
        world.servers.control_rabbitmq("set_disk_free_limit", _USUAL)
    return True
