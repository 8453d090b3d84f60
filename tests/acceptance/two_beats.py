"""Two real beats, each with lines of its own to PostgreSQL, Redis and RabbitMQ, and jobs that fire every second."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from chaos.proxy import Proxy
from tests.acceptance.pulses import Pulses
from tests.platform import Process
from tests.waiting import wait_until

PULSES = 16  # so that each of the two has some: of six, one beat had none in every thirtieth run
DATABASE_AWAY = "the database is away: nothing is planned until it answers"
DATABASE_BACK = "ticks go on: the trouble is over"
HANGS = "this beat's tick hangs: its shards go to the others"
_ONE_OFFS = ("strange", "lost", "patient")
# They are far away: a test lets them fire by an UPDATE of its own.
_CREATE_ONE_OFFS = f"""
for name in {_ONE_OFFS}:
    definitions.create(key=name, task="onbeat.echo", queue=name, schedule=Once(now + timedelta(days=1)), now=now)
"""


class OneBeat:
    """A beat and its lines."""

    def __init__(self, process: Process, database: Proxy, redis: Proxy, broker: Proxy) -> None:
        self.process = process
        self.database = database
        self.redis = redis
        self.broker = broker
        self._read = 0

    def mend(self) -> None:
        for line in (self.database, self.redis, self.broker):
            line.mend()

    def log(self) -> str:
        """Since the test began."""
        return self.process.output()[self._read :]

    def said(self) -> list[str]:
        """The events since the test began, in its log's words and without times and fields."""
        return [line[17:].split("  ")[0] for line in self.log().splitlines() if line[9:16] in ("INFO   ", "WARNING")]

    def is_in_trouble(self) -> bool:
        """Whether it told of a database that is away, and not yet that this is over."""
        output = self.process.output()
        ended = output.count(f"{DATABASE_BACK}  after='{DATABASE_AWAY}")
        return output.count(DATABASE_AWAY) - ended > ended

    def forget(self) -> None:
        self._read = len(self.process.output())


class TwoBeats(Pulses):
    def __init__(self, folder: Path, *, count: int = PULSES, **environment: str) -> None:
        patience = {
            "ONBEAT_EXECUTIONS_CONFIRM_SECONDS": "1",
            "ONBEAT_BEAT_STUCK_AFTER_SECONDS": "3",
            "ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS": "1",
        }
        super().__init__(folder, count=count, others=_CREATE_ONE_OFFS, **{**patience, **environment})
        self.beats: list[OneBeat] = []

    def __enter__(self) -> Self:
        super().__enter__()
        for name in _ONE_OFFS:
            self._stack.callback(self.channel.queue_delete, self.queue(name))
        self.beats = [self._start(f"beat-{number}") for number in (1, 2)]
        return self

    def _start(self, name: str) -> OneBeat:
        addresses = {
            name: self.platform.environment[name] for name in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")
        }
        lines = {name: self._stack.enter_context(Proxy(url)) for name, url in addresses.items()}
        process = self.platform.beat(name, **{variable: line.url for variable, line in lines.items()})
        return OneBeat(process, *lines.values())

    def replace_the_dead(self) -> None:
        for number, beat in enumerate(self.beats):
            if not beat.process.is_running():
                self.beats[number] = self._start(f"beat-{len(self.platform.processes) + 1}")

    # ── What the test looks at ───────────────────────────────────────────────────────────────────────────────────

    def fire_now(self, key: str) -> None:
        """As a person would with SQL."""
        self.change(
            "UPDATE onbeat_schedule SET next_fire_at = clock_timestamp() "
            f"WHERE job_id = (SELECT id FROM onbeat_job WHERE key = '{key}')"
        )

    def state_of(self, key: str) -> tuple[str, str]:
        """The state and reason of the execution of a one-off, once it has one."""
        found = self.rows(
            f"SELECT e.state, reason FROM onbeat_execution e JOIN onbeat_job j ON j.id = job_id WHERE key = '{key}'"
        )
        assert len(found) <= 1
        return found[0] if found else ("", "")

    def waiting_in(self, queue: str) -> int:
        count: int = self.channel.queue_declare(self.queue(queue), passive=True).message_count
        return count

    def registry(self, column: str) -> list[Any]:
        return [value for (value,) in self.rows(f"SELECT {column} FROM onbeat_beat ORDER BY pid")]

    # ── What the test waits for ──────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def beginning_calm(self) -> Iterator[None]:
        """One test: all is well before it, and mended after it. What the beats said in between is shown if it fails."""
        self.calm()
        for beat in self.beats:
            beat.forget()
        yield
        for beat in self.beats:
            beat.mend()
            print(f"--- {beat.process.name} ---\n{beat.log()}")  # noqa: T201 - pytest shows it on failure

    def calm(self) -> None:
        """Both reach everything, and share the shards between them, by what they say from now on."""
        for beat in self.beats:
            beat.mend()
        self.share_the_work(*(beat.process for beat in self.beats))
        wait_until(lambda: not any(beat.is_in_trouble() for beat in self.beats), what="both say that all is well")

    def each_says(self, words: str) -> None:
        wait_until(lambda: all(words in beat.said() for beat in self.beats), what=f"both beats say {words!r}")
