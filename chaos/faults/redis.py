"""A Redis that dies, forgets or hangs."""

import time

from chaos.plan import Fault
from chaos.world import World


def kill(world: World, fault: Fault) -> bool:
    world.servers.kill_redis()
    time.sleep(fault.seconds)
    world.servers.start_redis()
    return True


def flush(world: World, _fault: Fault) -> bool:
    """All leases and all members are gone at once."""
    world.servers.flush_redis()
    return True


def freeze(world: World, fault: Fault) -> bool:
    with world.servers.redis_frozen():
        time.sleep(fault.seconds)
    return True
