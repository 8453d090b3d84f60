"""The private Redis. Its password is in its configuration file, never on a command line."""

from pathlib import Path

from launcher.binaries import find_redis
from launcher.ports import HOST
from launcher.probes import redis_answers
from launcher.processes import is_alive, is_ours, last_line, leave_behind, pid_in, tail, terminate, wait_until
from launcher.service_record import Record, ServicesUnavailable, write_private

_START_SECONDS = 30


def start(services: Path, record: Record) -> None:
    """Start the server and return when it accepts our password."""
    home = services / "redis"
    home.mkdir(mode=0o700, exist_ok=True)
    running = pid(services, record)
    if not running:
        program = find_redis()
        if program is None:
            raise ServicesUnavailable("Redis is not installed. Install the redis-server package, then try again.")
        write_private(_configuration(home), _settings(home, record))
        running = leave_behind([str(program), str(_configuration(home))], log=_log(home))

    def answers() -> bool:
        return redis_answers(record.ports.redis, record.redis_password)

    wait_until(lambda: answers() or not is_alive(running), _START_SECONDS)
    if not answers():
        raise ServicesUnavailable(
            f"Redis did not start: {last_line(tail(_log(home), 5))}. "
            f"Put right what its log {_log(home)} says, then try again."
        )


def stop(services: Path, record: Record) -> bool:
    """Stop the server if it is ours and runs; True if it did."""
    home, running = services / "redis", pid(services, record)
    if not running:
        return False
    if not terminate(running, *_marks(home, record), seconds=20):
        raise ServicesUnavailable(f"Redis did not stop; its log is {_log(home)}. End process {running} by hand.")
    return True


def pid(services: Path, record: Record) -> int:
    """Of our running server, or 0."""
    home = services / "redis"
    found = pid_in(_pid_file(home))
    return found if is_ours(found, *_marks(home, record)) else 0


def _settings(home: Path, record: Record) -> str:
    return "\n".join(
        [
            f"bind {HOST}",
            f"port {record.ports.redis}",
            f"requirepass {record.redis_password}",
            f'dir "{home}"',
            f'pidfile "{_pid_file(home)}"',
            f'logfile "{_log(home)}"',
            "daemonize no",  # leaving it behind is our business
            "appendonly yes",  # what was answered survives a kill
            "",
        ]
    )


def _marks(home: Path, record: Record) -> tuple[str, str]:
    # Redis rewrites its own command line where the system lets it.
    return f"redis-server {HOST}:{record.ports.redis}", str(_configuration(home))


def _configuration(home: Path) -> Path:
    return home / "redis.conf"


def _pid_file(home: Path) -> Path:
    return home / "redis.pid"


def _log(home: Path) -> Path:
    return home / "server.log"
