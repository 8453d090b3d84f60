"""What each kind of fault does to a world. One function for each, and the table that says which.

Each strikes, lasts for as long as its fault says, and is undone before it returns: whatever happens meanwhile, the
world is whole again then, except for what the platform itself has to mend.
"""

from collections.abc import Callable

from chaos.faults import machine, network, postgres, processes, rabbitmq, redis
from chaos.plan import KINDS, Fault
from chaos.world import World

# Answers whether it struck: a step that nobody came to struck nobody.
Strike = Callable[[World, Fault], bool]

STRIKES: dict[str, Strike] = {
    "beat killed": processes.kill,
    "beat told to stop": processes.tell_to_stop,
    "beat frozen": processes.freeze,
    "beat killed at a step": processes.kill_at_step,
    "beat frozen at a step": processes.freeze_at_step,
    "beat's clock moved": machine.move_clock,
    "worker killed": processes.kill,
    "worker's parent killed": processes.kill_parent,
    "worker's child killed": processes.kill_child,
    "worker told to stop": processes.tell_to_stop,
    "worker frozen": processes.freeze,
    "worker killed at a step": processes.kill_at_step,
    "child killed at a step": processes.kill_child_at_step,
    "child frozen at a step": processes.freeze_at_step,
    "web killed": processes.kill,
    "web told to stop": processes.tell_to_stop,
    "web frozen": processes.freeze,
    "Redis killed": redis.kill,
    "Redis flushed": redis.flush,
    "Redis frozen": redis.freeze,
    "RabbitMQ killed": rabbitmq.kill,
    "RabbitMQ restarted": rabbitmq.restart,
    "RabbitMQ's memory alarm": rabbitmq.raise_memory_alarm,
    "RabbitMQ's connections cut": rabbitmq.cut_connections,
    "a queue purged": rabbitmq.purge,
    "PostgreSQL restarted, immediate": postgres.restart_immediate,
    "PostgreSQL restarted, fast": postgres.restart_fast,
    "PostgreSQL's connections cut": postgres.cut_connections,
    "PostgreSQL frozen": postgres.freeze,
    "the executions locked": postgres.lock_executions,
    "serialization errors": postgres.raise_serialization_errors,
    "deadlock errors": postgres.raise_deadlock_errors,
    "a real deadlock": postgres.make_deadlock,
    "the disk full": machine.fill_disk,
    "confirms withheld": network.withhold_confirms,
    "line cut": network.cut,
    "line frozen": network.freeze,
    "line slow": network.slow,
    "line half-open, server gone": network.tear_from_server,
    "line half-open, caller gone": network.tear_from_caller,
    "line to the receiver cut": network.cut_receiver,
    "line to the web process cut": network.cut_web,
    "line to the web process frozen": network.freeze_web,
}
assert STRIKES.keys() == KINDS.keys()
