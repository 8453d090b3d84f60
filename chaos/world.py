"""Everything of one run: private servers, the lines to them, the processes, and where they keep what they tell."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos import broken, inside, instruments, ledger
from chaos.crew import Place, Platform
from chaos.plan import SERVERS, Crew
from chaos.proxy import Proxy
from chaos.receiver import Receiver
from chaos.servers import Servers, private_servers
from launcher import packages
from launcher.folders import ROOT
from launcher.ports import HOST, free_port
from launcher.processes import run
from launcher.progress import Say, step
from launcher.refusal import Refusal

PREFIX = "chaos."
QUEUES = ("default", "http")
_VARIABLES = {"postgres": "DATABASE_URL", "redis": "REDIS_URL", "rabbitmq": "CELERY_BROKER_URL"}
_BIN = Path(sys.executable).parent
_CHILDREN = "5"  # most of their tasks only sleep
_READY_SECONDS = 90
_CLOCK_LIBRARIES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1")
# Losses are noticed within seconds, so that a minute is enough for all of it: the defaults are made for long nights.
_SETTINGS = {
    "ONBEAT_WORKERS_HEARTBEAT_SECONDS": "1",
    "ONBEAT_WORKERS_LOST_AFTER_SECONDS": "6",
    "ONBEAT_BEAT_LEASE_SECONDS": "6",
    "ONBEAT_BEAT_STUCK_AFTER_SECONDS": "3",
    "ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS": "5",
    "ONBEAT_EXECUTIONS_CONFIRM_SECONDS": "3",
    "DATABASE_ANSWER_SECONDS": "8",
    "CELERY_BROKER_HEARTBEAT": "4",
    "ONBEAT_API_REQUESTS_PER_MINUTE": "0",
    "ONBEAT_CALLBACKS_NETWORKS": "127.0.0.0/8",
    "ONBEAT_CALLBACKS_PORTS": "1024-65535",
}


@dataclass
class World:
    folder: Path
    servers: Servers
    platform: Platform
    crew: Crew
    receiver_line: Proxy
    lines: Mapping[str, Mapping[str, Proxy]]  # over which each of the crew, and the app, sees the servers
    environment: Mapping[str, str]
    web_url: str  # by a line of its own
    web_line: Proxy
    clock: Path | None  # what the first beat takes for the time, where its clock can be moved

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    @property
    def orders(self) -> Path:
        return self.folder / "orders"

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            try:
                with urllib.request.urlopen(f"{self.web_url}/health/ready", timeout=5) as answer:
                    return b'"ready"' in answer.read()
            except (OSError, urllib.error.URLError):
                return False

        deadline = time.monotonic() + _READY_SECONDS
        while not is_ready():
            if time.monotonic() > deadline:
                raise Refusal(f"The platform was not ready within {_READY_SECONDS} s; its logs are in {self.folder}.")
            time.sleep(0.2)


@contextlib.contextmanager
def a_world(crew: Crew, say: Say, *, guard: str = "", keep: Path | None = None) -> Iterator[World]:
    """Started and ready. Its folder is kept where somebody wants to read it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="onbeat-chaos-"))
    folder.chmod(0o711)  # PostgreSQL's user has to pass through
    with contextlib.ExitStack() as stack:
        stack.callback(_put_away, folder, keep)
        clock_library = _clock_library(say)
        servers = stack.enter_context(private_servers(folder / "data", say))
        with step(say, "Preparing the platform"):
            world = _prepared(folder, servers, crew, stack, clock_library, guard)
        with step(say, f"Starting {len(crew.beats)} beats, {len(crew.workers)} workers and the web process"):
            world.platform.start()
            world.wait_until_ready()
        yield world


def _prepared(
    folder: Path,
    servers: Servers,
    crew: Crew,
    stack: contextlib.ExitStack,
    clock_library: str,
    guard: str,
) -> World:
    for name in ("ledger", "orders", "logs", "scratch"):
        (folder / name).mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONBEAT_", "CHAOS_"))}
    environment = {
        **kept,
        **_SETTINGS,
        "DATA_DIR": str(folder / "data"),
        "TMPDIR": str(folder / "scratch"),  # who is killed cannot tidy up
        "SECRET_KEY": "only-for-chaos-and-known-to-everybody",
        "ONBEAT_EXECUTIONS_PREFIX": PREFIX,
        ledger.FOLDER: str(folder / "ledger"),
        inside.ORDERS: str(folder / "orders"),
        broken.GUARD: guard,
        "PYTHONUNBUFFERED": "1",
    }
    receiver = stack.enter_context(Receiver(folder / "ledger"))
    receiver_line = stack.enter_context(Proxy(receiver.url))
    web_port = free_port({receiver_line.port})
    web_line = stack.enter_context(Proxy(f"http://{HOST}:{web_port}"))
    environment["ONBEAT_CALLBACKS_URL"] = web_line.url
    _migrate({**environment, **servers.addresses.as_env()})
    with servers.database() as database:
        instruments.install(database)
        if guard == "lease":
            database.execute(broken.WITHOUT_CONSTRAINT.encode())
    platform = Platform()
    stack.callback(platform.close)
    clock = folder / "clock" if clock_library else None
    lines = {name: _lines(servers, stack) for name in (*crew.everybody, crew.app)}
    for name in crew.everybody:
        own = {**environment, **addresses_by(lines[name])}
        if clock is not None and name == crew.beats[0]:
            own |= _with_a_clock(clock, clock_library)
        platform.add(Place(name, _command(name, crew, web_port), own, folder / "logs" / f"{name}.log"))
    return World(
        folder=folder,
        servers=servers,
        platform=platform,
        crew=crew,
        receiver_line=receiver_line,
        lines=lines,
        environment=environment,
        web_url=web_line.url,
        web_line=web_line,
        clock=clock,
    )


def _lines(servers: Servers, stack: contextlib.ExitStack) -> dict[str, Proxy]:
    urls = servers.addresses.as_env()
    return {server: stack.enter_context(Proxy(urls[_VARIABLES[server]])) for server in SERVERS}


def addresses_by(lines: Mapping[str, Proxy]) -> dict[str, str]:
    """The variables by which a process finds its servers over these lines."""
    return {_VARIABLES[server]: line.url for server, line in lines.items()}


def _command(name: str, crew: Crew, web_port: int) -> list[str]:
    in_it = [sys.executable, "-m", "chaos.inside", name]
    if name in crew.beats:
        return [*in_it, "beat"]
    if name == crew.web:
        words = [str(_BIN / "gunicorn"), "scheduler_project.wsgi", "--bind", f"{HOST}:{web_port}", "--threads", "8"]
        return [*words, "--no-control-socket", "--log-level", "warning"]
    common = ["-n", f"{name}@chaos", "-l", "INFO", "--without-gossip", "--without-mingle", "-E"]
    common += ["--include", "chaos.handlers"]
    if name == "callbacks":
        return [*in_it, "worker", "-Q", f"{PREFIX}http", "--pool", "threads", "-c", "8", *common]
    queues = QUEUES if "callbacks" not in crew.workers else QUEUES[:1]
    return [*in_it, "worker", "-Q", ",".join(PREFIX + queue for queue in queues), "-c", _CHILDREN, *common]


def _migrate(environment: Mapping[str, str]) -> None:
    done = run([sys.executable, str(ROOT / "manage.py"), "migrate", "-v0"], env=environment, timeout=120)
    if done.returncode != 0:
        raise Refusal(f"The database could not be prepared: {done.stdout[-2000:]}")


def _clock_library(say: Say) -> str:
    """What lets a process see another time; installed where that is possible, else empty."""
    found = _find_clock_library()
    if not found and packages.can_install():
        with tempfile.TemporaryDirectory() as scratch, contextlib.suppress(Refusal):
            packages.install(["libfaketime"], Path(scratch) / "install.log", say)
        found = _find_clock_library()
    return found


def _find_clock_library() -> str:
    for pattern in _CLOCK_LIBRARIES:
        for path in Path("/").glob(pattern.lstrip("/")):
            return str(path)
    return ""


def _with_a_clock(clock: Path, library: str) -> dict[str, str]:
    clock.write_text("+0\n")
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


def _put_away(folder: Path, keep: Path | None) -> None:
    if keep is not None:
        for name in ("ledger", "logs"):
            if (folder / name).exists():
                shutil.copytree(folder / name, keep / name, dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
