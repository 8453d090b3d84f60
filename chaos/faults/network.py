"""Lines between a process and a server that are cut, frozen, slow, deaf or half-open."""

import time
from collections.abc import Callable

from chaos.plan import Fault
from chaos.proxy import Proxy
from chaos.world import World

_SLOW_SECONDS = 0.3


def _line(world: World, fault: Fault) -> Proxy:
    return world.lines[fault.whom][fault.detail]


def _while_it_lasts(line: Proxy, fault: Fault, begin: Callable[[], None]) -> bool:
    begin()
    try:
        time.sleep(fault.seconds)
    finally:
        line.mend()
    return True


def cut(world: World, fault: Fault) -> bool:
    line = _line(world, fault)
    return _while_it_lasts(line, fault, line.cut)


def freeze(world: World, fault: Fault) -> bool:
    line = _line(world, fault)
    return _while_it_lasts(line, fault, line.freeze)


def slow(world: World, fault: Fault) -> bool:
    line = _line(world, fault)
    return _while_it_lasts(line, fault, lambda: line.slow(_SLOW_SECONDS))


def tear_from_server(world: World, fault: Fault) -> bool:
    """The server has forgotten its connections, and the process waits for answers that never come."""
    _line(world, fault).tear(gone="server")
    return True


def tear_from_caller(world: World, fault: Fault) -> bool:
    """The process has lost its connections, and the server keeps what they hold: locks, and unacknowledged messages."""
    line = _line(world, fault)
    return _while_it_lasts(line, fault, lambda: line.tear(gone="caller"))


def withhold_confirms(world: World, fault: Fault) -> bool:
    """Messages arrive at the broker, and the beat does not hear of it."""
    line = world.lines[fault.whom]["rabbitmq"]
    return _while_it_lasts(line, fault, line.deafen)


def cut_receiver(world: World, fault: Fault) -> bool:
    return _while_it_lasts(world.receiver_line, fault, world.receiver_line.cut)


def cut_web(world: World, fault: Fault) -> bool:
    """For whoever uses REST, and for the receiver that tells the end of what it was asked to do."""
    return _while_it_lasts(world.web_line, fault, world.web_line.cut)


def freeze_web(world: World, fault: Fault) -> bool:
    return _while_it_lasts(world.web_line, fault, world.web_line.freeze)
