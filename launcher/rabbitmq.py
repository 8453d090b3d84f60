"""The private RabbitMQ: a node with its own name, cookie, folders, ports and port mapper (epmd).

Every path that RabbitMQ would otherwise look up in the machine's own configuration is given to it, and everything
it listens on is on the loopback address.
"""

import contextlib
import os
import secrets
import socket
import struct
from pathlib import Path

from launcher.binaries import find_rabbitmq
from launcher.ports import HOST, is_taken
from launcher.probes import rabbitmq_answers
from launcher.processes import (
    environment,
    is_alive,
    is_ours,
    last_line,
    leave_behind,
    pid_in,
    run,
    tail,
    terminate,
    wait_until,
)
from launcher.service_record import NAME, Record, ServicesUnavailable, write_private

_START_SECONDS = 120
_SCRIPT = "rabbitmq-server"
_LOOPBACK_ONLY = "-kernel inet_dist_use_interface {127,0,0,1}"
# Erlang's schedulers spin while they wait for work, which a small machine feels.
_NO_BUSY_WAIT = "+sbwt none +sbwtdcpu none +sbwtdio none"
# As from RabbitMQ 3.12 on all queues do: what waits is on disk alone. Before that a queue keeps it in memory as well,
# and looks for garbage in all of it again and again: a third of what a burst costs the broker.
_ON_DISK_ALONE = ("on-disk-alone", ".*", '{"queue-mode": "lazy"}', "--apply-to", "queues")


def start(services: Path, record: Record) -> None:
    """Start the node and return when it accepts our user, password and virtual host."""
    home = services / "rabbitmq"
    programs = _programs()
    script = _script_pid(home)
    is_new = not script
    if is_new:
        _write_configuration(home, record)
        command = [str(programs / _SCRIPT)]
        script = leave_behind(command, env=_environment(home, record), log=home / "console.log")
        write_private(home / "script.pid", str(script))

    def answers() -> bool:
        return rabbitmq_answers(record.ports.rabbitmq, record.rabbitmq_password)

    wait_until(lambda: answers() or not is_alive(script), _START_SECONDS)
    if not answers():
        said = last_line(tail(_log(home), 5) or tail(home / "console.log", 5))
        stop(services, record)
        raise ServicesUnavailable(
            f"RabbitMQ did not start: {said}. Put right what its log {_log(home)} says, then try again."
        )
    if is_new:
        with contextlib.suppress(ServicesUnavailable):  # an economy: one that refuses it works as well
            control(services, record, "set_policy", "-p", NAME, *_ON_DISK_ALONE)


def stop(services: Path, record: Record) -> bool:
    """Stop the node if it runs, then its port mapper; True if either did."""
    home = services / "rabbitmq"
    script = _script_pid(home)
    # A node that is only just starting has not written its number yet.
    wait_until(lambda: _node_pid(home) != 0 or not is_alive(script), 20)
    node = _node_pid(home)
    if node:
        command = [str(_programs() / "rabbitmqctl"), "-n", record.node, "stop"]
        run(command, env=_environment(home, record), timeout=60)
        if not wait_until(lambda: not is_alive(node), 30) and not terminate(node, _mark(home), seconds=15):
            raise ServicesUnavailable(f"RabbitMQ did not stop; its log is {_log(home)}. End process {node} by hand.")
    if not wait_until(lambda: not is_alive(script), 5):
        terminate(script, _SCRIPT, seconds=15)
    return _stop_port_mapper(record) or bool(node or script)


def pid(services: Path) -> int:
    """Of our running node, or 0."""
    return _node_pid(services / "rabbitmq")


def control(services: Path, record: Record, *words: str, program: str = "rabbitmqctl") -> str:
    """Tell the running node something by one of its own programs; what that printed."""
    done = run([str(_programs() / program), "-n", record.node, *words], env=_environment(services / "rabbitmq", record))
    if done.returncode != 0:
        raise ServicesUnavailable(f"`{program} {' '.join(words)}` failed: {last_line(done.stdout)}.")
    return done.stdout


def wait_until_gone(services: Path) -> bool:
    """After a kill: the script that started a node ends a moment after it, and is in the way of the next start."""
    home = services / "rabbitmq"
    return wait_until(lambda: not _node_pid(home) and not _script_pid(home), 20)


def port_mapper_is_ours(record: Record) -> bool:
    """An epmd that outlived its node is ours if no other node is known to it."""
    try:
        with socket.create_connection((HOST, record.ports.epmd), timeout=2) as caller:
            caller.sendall(b"\x00\x01n")  # NAMES_REQ
            answer = b""
            while more := caller.recv(4096):
                answer += more
    except OSError:
        return False
    names = [line.split()[1] for line in answer[4:].decode(errors="replace").splitlines() if line.startswith("name ")]
    is_epmd = answer[:4] == struct.pack("!I", record.ports.epmd)
    node = record.node.split("@")[0]
    return is_epmd and all(name == node or name.startswith("rabbitmqcli") for name in names)  # or a tool just ending


def _stop_port_mapper(record: Record) -> bool:
    """What `epmd -port … -kill` does, without looking for that program: it is refused while a node is registered."""
    if not record.ports.epmd or not port_mapper_is_ours(record):
        return False

    def gone() -> bool:
        try:
            with socket.create_connection((HOST, record.ports.epmd), timeout=2) as caller:
                caller.sendall(b"\x00\x01k")  # KILL_REQ
                caller.recv(16)
        except OSError:
            pass
        return not is_taken(record.ports.epmd)

    return wait_until(gone, 10)


def _node_pid(home: Path) -> int:
    pid = pid_in(home / "rabbitmq.pid")
    return pid if is_ours(pid, _mark(home)) else 0


def _script_pid(home: Path) -> int:
    """The start script that we left behind: it lives as long as its node does."""
    pid = pid_in(home / "script.pid")
    return pid if is_ours(pid, _SCRIPT) else 0


def _mark(home: Path) -> str:
    return f"-home {home}"  # how Erlang's command line shows the HOME that only this node has


def _programs() -> Path:
    programs = find_rabbitmq()
    if programs is None:
        raise ServicesUnavailable("RabbitMQ is not installed. Install the rabbitmq-server package, then try again.")
    return programs


def _log(home: Path) -> Path:
    return home / "server.log"


def _environment(home: Path, record: Record) -> dict[str, str]:
    return environment(
        without=["RABBITMQ_", "ERL_"],
        HOME=str(home),  # where the cookie is
        RABBITMQ_NODENAME=record.node,
        RABBITMQ_CONF_ENV_FILE=str(home / "rabbitmq-env.conf"),
        RABBITMQ_CONFIG_FILE=str(home / "rabbitmq.conf"),
        RABBITMQ_CONFIG_FILES=str(home / "conf.d"),
        RABBITMQ_ADVANCED_CONFIG_FILE=str(home / "advanced.config"),
        RABBITMQ_MNESIA_BASE=str(home / "data"),
        RABBITMQ_LOG_BASE=str(home),
        RABBITMQ_LOGS=str(_log(home)),
        RABBITMQ_ENABLED_PLUGINS_FILE=str(home / "enabled_plugins"),
        RABBITMQ_PID_FILE=str(home / "rabbitmq.pid"),
        RABBITMQ_FEATURE_FLAGS_FILE=str(home / "data" / "feature_flags"),
        RABBITMQ_DIST_PORT=str(record.ports.dist),
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=f"{_NO_BUSY_WAIT} {_LOOPBACK_ONLY}",
        RABBITMQ_CTL_ERL_ARGS=_LOOPBACK_ONLY,
        ERL_EPMD_PORT=str(record.ports.epmd),
        ERL_EPMD_ADDRESS=HOST,
    )


def _write_configuration(home: Path, record: Record) -> None:
    for directory in (home, home / "data", home / "conf.d"):
        directory.mkdir(mode=0o700, exist_ok=True)
    settings = [
        f"listeners.tcp.1 = {HOST}:{record.ports.rabbitmq}",
        # The first user and virtual host of an empty node; with them there is no guest.
        f"default_user = {NAME}",
        f"default_pass = {record.rabbitmq_password}",
        f"default_vhost = {NAME}",
        "",
    ]
    write_private(home / "rabbitmq.conf", "\n".join(settings))
    write_private(home / "rabbitmq-env.conf", "")
    write_private(home / "advanced.config", "[].\n")
    write_private(home / "enabled_plugins", "[].\n")
    cookie = home / ".erlang.cookie"
    if not cookie.exists():
        write_private(cookie, secrets.token_hex(20))
        os.chmod(cookie, 0o400)
