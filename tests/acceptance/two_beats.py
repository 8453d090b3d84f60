"""Two real beats, each with lines of its own to PostgreSQL, Redis and RabbitMQ, and jobs that fire every second.

What the beats did is told by others than them: fires by the seconds of the clock, messages by a queue of the test's own
that gets a copy of each.
"""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import kombu
import psycopg
from django.conf import settings

from tests.platform import Platform, Process
from tests.proxy import Proxy
from tests.waiting import wait_until

PULSES = 6
DATABASE_AWAY = "the database is away: nothing is planned until it answers"
DATABASE_BACK = "ticks go on: the trouble is over"
_SHARDS = 64
# One-offs are far away: a test lets them fire by an UPDATE of its own.
_SET_UP = f"""
from datetime import timedelta
from django.core.management import call_command
from executions.clock import database_now
from jobs import definitions
from jobs.recurrence import Cron, Once
call_command("migrate", verbosity=0)
now = database_now()
for n in range({PULSES}):
    definitions.create(key=f"pulse-{{n}}", task="onbeat.echo", schedule=Cron("* * * * * *"), priority=n + 1, now=now)
for name in ("strange", "lost", "patient"):
    definitions.create(key=name, task="onbeat.echo", queue=name, schedule=Once(now + timedelta(days=1)), now=now)
"""
_OWN_QUEUES = ("copies", "strange", "lost", "patient")


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


class TwoBeats:
    def __init__(self, folder: Path) -> None:
        self.platform = Platform(folder, is_full=True)
        self.platform.environment |= {
            "ONBEAT_EXECUTIONS_CONFIRM_SECONDS": "1",
            "ONBEAT_BEAT_STUCK_AFTER_SECONDS": "3",
            "ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS": "1",
        }
        self._stack = ExitStack()
        self.beats: list[OneBeat] = []
        self._messages: list[Any] = []

    def __enter__(self) -> "TwoBeats":
        self._stack.enter_context(self.platform)
        self.platform.manage("shell", "-c", _SET_UP)
        self.channel = self._stack.enter_context(kombu.Connection(settings.CELERY_BROKER_URL)).channel()
        self._listen()
        self.beats = [self._start(f"beat-{number}") for number in (1, 2)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in _OWN_QUEUES:
            self.channel.queue_delete(self.queue(name))
        self._stack.__exit__(kind, error, trace)

    def _start(self, name: str) -> OneBeat:
        addresses = {
            name: self.platform.environment[name] for name in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")
        }
        lines = {name: self._stack.enter_context(Proxy(url)) for name, url in addresses.items()}
        process = self.platform.beat(name, **{variable: line.url for variable, line in lines.items()})
        return OneBeat(process, *lines.values())

    # ── What the test looks at ───────────────────────────────────────────────────────────────────────────────────

    def queue(self, name: str) -> str:
        return f"{self.platform.name}.{name}"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.platform.rows(query)

    def count(self, query: str) -> int:
        return self.platform.count(query)

    def change(self, statement: str) -> None:
        with psycopg.connect(self.platform.environment["DATABASE_URL"]) as connection:
            connection.execute(statement.encode())

    def second(self) -> int:
        """The database's clock."""
        return self.count("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint")

    def fires(self, since: int, until: int) -> list[tuple[str, int, str]]:
        """Job, second and state of each row of that stretch."""
        return self.rows(
            "SELECT key, extract(epoch FROM fire_time)::bigint AS second, e.state "
            "FROM onbeat_execution e JOIN onbeat_job j ON j.id = job_id "
            f"WHERE fire_time >= to_timestamp({since}) AND fire_time < to_timestamp({until}) "
            "AND key LIKE 'pulse-%' ORDER BY key, second"
        )

    def messages(self) -> list[Any]:
        """All messages of the pulses until now, in the order in which they were sent."""
        self._messages += iter(lambda: self.channel.basic_get(self.queue("copies"), no_ack=True), None)
        return self._messages

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

    def calm(self) -> None:
        """Both reach everything, and share the shards between them, by what they say from now on."""
        for beat in self.beats:
            assert beat.process.is_running(), beat.process.output()[-3000:]
            beat.mend()
        now = self.rows("SELECT clock_timestamp()")[0][0]
        facts = (
            "SELECT count(*), sum(shards) FROM onbeat_beat WHERE NOT (is_broker_away OR is_redis_away) "
            f"AND ticked_at > '{now.isoformat()}'"
        )
        wait_until(lambda: self.rows(facts) == [(2, _SHARDS)], what="both beats are well and share the work")
        wait_until(lambda: not any(beat.is_in_trouble() for beat in self.beats), what="both say that all is well")

    def pass_seconds(self, count: int) -> None:
        until = self.second() + count
        wait_until(lambda: self.second() >= until, what=f"{count} seconds have passed")

    def each_says(self, words: str) -> None:
        wait_until(lambda: all(words in beat.said() for beat in self.beats), what=f"both beats say {words!r}")

    def are_published(self, *, until: int) -> None:
        waiting = (
            "SELECT count(*) FROM onbeat_execution WHERE state = 'SCHEDULED' AND queue = 'default' "
            f"AND fire_time < to_timestamp({until})"
        )
        wait_until(lambda: self.count(waiting) == 0, what="everything that was due is published")

    @contextmanager
    def every_second_fires_once(self) -> Iterator[None]:
        """From before the outage until after it. Every row must also have had its message; a second one is harmless."""
        since = self.second()
        yield
        until = self.second() + 1
        self.are_published(until=until)
        expected = [
            (f"pulse-{job}", second, "QUEUED") for job, second in itertools.product(range(PULSES), range(since, until))
        ]
        assert self.fires(since, until) == expected
        fires = {str(pk) for (pk,) in self.rows(_IDS.format(since=since, until=until))}
        assert fires <= {message.properties["message_id"] for message in self.messages()}

    def _listen(self) -> None:
        """Messages are copied to a queue without priorities, so that it keeps the order in which they were sent."""
        self.channel.exchange_declare(self.queue("work"), "direct", durable=True, auto_delete=False)
        self.channel.queue_declare(self.queue("copies"), durable=True, auto_delete=False)
        self.channel.queue_bind(self.queue("copies"), self.queue("work"), routing_key="default")


_IDS = (
    "SELECT e.id FROM onbeat_execution e JOIN onbeat_job j ON j.id = job_id WHERE key LIKE 'pulse-%' "
    "AND fire_time >= to_timestamp({since}) AND fire_time < to_timestamp({until})"
)
