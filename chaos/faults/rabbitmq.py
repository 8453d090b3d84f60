"""A RabbitMQ that dies, is restarted, blocks who publishes, hangs up on everybody, or loses what it confirmed."""

import time

from chaos.plan import Fault
from chaos.world import PREFIX, World

_USUAL_SHARE = "0.4"


def kill(world: World, fault: Fault) -> bool:
    world.servers.kill_rabbitmq()
    time.sleep(fault.seconds)
    world.servers.start_rabbitmq()
    return True


def restart(world: World, fault: Fault) -> bool:
    world.servers.stop_rabbitmq()
    time.sleep(fault.seconds)
    world.servers.start_rabbitmq()
    return True


def raise_memory_alarm(world: World, fault: Fault) -> bool:
    """It takes no more messages until there is memory again, and tells nobody when that will be."""
    world.servers.control_rabbitmq("set_vm_memory_high_watermark", "0")
    try:
        time.sleep(fault.seconds)
    finally:
        world.servers.control_rabbitmq("set_vm_memory_high_watermark", _USUAL_SHARE)
    return True


def cut_connections(world: World, _fault: Fault) -> bool:
    world.servers.control_rabbitmq("close_all_connections", "cut by the harness")
    return True


def purge(world: World, fault: Fault) -> bool:
    """Whatever waits in that queue was confirmed, and is gone."""
    world.servers.purge(f"{PREFIX}{fault.detail}")
    return True
