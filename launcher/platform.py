"""The platform as programs: `run` (embedded, or on what the environment names) and `up` (on private services)."""

import contextlib
import errno
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from launcher import folders, services
from launcher.refusal import Refusal
from launcher.supervisor import Program, Supervisor

_HOST = "127.0.0.1"
_DEFAULT_PORT = 8000
_FLOWER_PORT = 5555
_FLOWER_USER = "onbeat"
_READY_SECONDS = 60
_CALLBACKS = "ONBEAT_CALLBACKS_URL"
# What is said to all programs, unless the environment says otherwise.
_HERE = {
    "ONBEAT_EXECUTIONS_LOG_FORMAT": "text",  # a person watches them
    "ONBEAT_BEAT_METRICS_ADDRESS": f"{_HOST}:9101-9119",
    "ONBEAT_WORKERS_METRICS_ADDRESS": f"{_HOST}:9121-9139",
}
_NOT_PUBLIC = f"For this machine alone: plain http on {_HOST}, not for the open internet (docs/how-to/secure.md)."


def run() -> int:
    """Web, one beat and workers, on SQLite unless the environment names services."""
    data_dir = folders.data_dir()
    with folders.hold(data_dir) as lock, web_socket() as listening:
        environment = _for_all(data_dir, listening)
        _prepare(data_dir, environment, demo="embedded")
        programs = [web(listening, environment), beat("beat", environment), *workers(environment)]
        _supervise(programs, lock, listening.getsockname()[1], {"data": str(data_dir)})
    return 0


def up() -> int:
    """Web, two beats, workers and Flower, on private PostgreSQL, Redis and RabbitMQ."""
    data_dir = folders.data_dir()
    with folders.hold(data_dir) as lock, web_socket() as listening:
        with _first_free(_FLOWER_PORT) as free:
            flower_port = free.getsockname()[1]  # Flower cannot be handed a socket; it takes the port in a moment
        with services.held(data_dir, print) as addresses:
            # In the programs' own environment, where they win over whatever the caller's names.
            flower_url = f"http://{_HOST}:{flower_port}"
            environment = {
                **_for_all(data_dir, listening),
                **addresses.as_env(),
                "ONBEAT_CONSOLE_FLOWER_URL": os.environ.get("ONBEAT_CONSOLE_FLOWER_URL", "").strip() or flower_url,
            }
            login, where_it_is = flower_login(data_dir)
            _prepare(data_dir, environment, demo="always")
            programs = [
                web(listening, environment),
                beat("beat-1", environment),
                beat("beat-2", environment),
                *workers(environment),
                flower(flower_port, {**environment, **login}),
            ]
            facts = {"flower": f"{flower_url}/", "": where_it_is, "data": str(data_dir)}
            _supervise(programs, lock, listening.getsockname()[1], facts)
    return 0


def web_socket() -> socket.socket:
    """On PORT if it is given, and then exactly that; else on the first free one from 8000 on.

    Listening here and now, and handed to the web process: nobody can take the port between the look and the use.
    """
    given = os.environ.get("PORT", "").strip()
    if not given:
        return _first_free(_DEFAULT_PORT)
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= 65535:
        raise Refusal(f"PORT must be a number from 1 to 65535, not {given!r}.")
    try:
        return socket.create_server((_HOST, int(given)))
    except OSError as error:
        why = "is taken by another program" if error.errno == errno.EADDRINUSE else f"is not ours: {error.strerror}"
        raise Refusal(f"Port {given} {why}; set PORT to a free one, or unset it.") from None


def _first_free(start: int) -> socket.socket:
    for port in range(start, start + 1000):
        with contextlib.suppress(OSError):
            return socket.create_server((_HOST, port))
    raise Refusal(f"No port from {start} to {start + 999} is free; set PORT to one that is.")


def web(listening: socket.socket, environment: Mapping[str, str]) -> Program:
    command = [_script("gunicorn"), "scheduler_project.wsgi", "--bind", f"fd://{listening.fileno()}", "--workers", "1"]
    command += ["--threads", "8", "--no-control-socket", "--log-level", "warning"]
    return Program("web", command, environment, [listening])


def beat(name: str, environment: Mapping[str, str]) -> Program:
    return Program(name, [sys.executable, str(folders.ROOT / "manage.py"), "run_beat"], environment)


def workers(environment: Mapping[str, str]) -> list[Program]:
    """One for tasks and one for HTTP callbacks, so that slow hosts hold up no tasks."""
    command = [sys.executable, str(folders.ROOT / "manage.py"), "worker", "--only"]
    return [
        Program("worker", [*command, "tasks"], environment),
        Program("callbacks", [*command, "callbacks"], environment),
    ]


def flower(port: int, environment: Mapping[str, str]) -> Program:
    """What else holds for it is in `flowerconfig.py`, for those who start it by themselves as well."""
    command = [_script("celery"), "-A", "scheduler_project", "flower", f"--conf={folders.ROOT / 'flowerconfig.py'}"]
    return Program("flower", [*command, f"--address={_HOST}", f"--port={port}", "--logging=warning"], environment)


def flower_login(data_dir: Path) -> tuple[dict[str, str], str]:
    """In its environment, since everybody on the machine sees its command; and what people are told of it."""
    if os.environ.get("FLOWER_BASIC_AUTH"):
        return {}, "log in as FLOWER_BASIC_AUTH says"
    file = folders.keep_flower_password(data_dir)
    password = file.read_text(encoding="ascii").strip()
    return {"FLOWER_BASIC_AUTH": f"{_FLOWER_USER}:{password}"}, f"user {_FLOWER_USER}, password in {file}"


def _for_all(data_dir: Path, listening: socket.socket) -> dict[str, str]:
    """Receivers of callbacks on this machine reach the web process here, and metrics are shown here, unless the
    environment says otherwise."""
    here = f"http://{_HOST}:{listening.getsockname()[1]}"
    return {
        "DATA_DIR": str(data_dir),
        **{name: os.environ.get(name, "").strip() or value for name, value in {**_HERE, _CALLBACKS: here}.items()},
    }


def _script(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _prepare(data_dir: Path, environment: Mapping[str, str], *, demo: str) -> None:
    folders.keep_secret_key(data_dir)
    command = [sys.executable, str(folders.ROOT / "manage.py"), "prepare", "--demo", demo]
    if subprocess.run(command, env={**os.environ, **environment}, check=False).returncode != 0:
        raise Refusal("The database could not be prepared; the lines above say why.")


def _supervise(programs: list[Program], lock: IO[str], port: int, facts: Mapping[str, str]) -> None:
    address = f"http://{_HOST}:{port}"
    folders.say_holder(lock, f"process {os.getpid()}, {address}")
    os.chdir(folders.ROOT)
    supervisor = Supervisor(programs)
    announce = threading.Thread(target=_announce, args=(supervisor, port, facts), daemon=True)
    announce.start()
    supervisor.run()


def _announce(supervisor: Supervisor, port: int, facts: Mapping[str, str]) -> None:
    """Say that all is ready when it is, and where things are."""
    address = f"http://{_HOST}:{port}"
    is_ready = _wait_until_ready(port)
    heading = "Onbeat is ready." if is_ready else f"Onbeat is not ready after {_READY_SECONDS} s; see below."
    lines = {"admin": f"{address}/admin/", "api": f"{address}/api/docs", "health": f"{address}/health/ready", **facts}
    width = max(map(len, lines))
    body = "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items())
    supervisor.say(f"\n{heading}\n{body}\n{_NOT_PUBLIC}\nPress Ctrl-C to stop.\n")


def _wait_until_ready(port: int) -> bool:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(_HOST, port, timeout=5)
        try:
            connection.request("GET", "/health/ready")
            # Not only 200: that is also the answer while the worker has not signed on yet.
            if json.loads(connection.getresponse().read())["status"] == "ready":
                return True
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            connection.close()
        time.sleep(0.2)
    return False
