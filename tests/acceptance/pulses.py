"""A platform whose jobs fire every second, and what can be told of its beats without asking them.

Fires are told by the seconds of the database's clock, messages by a queue of the test's own that gets a copy of each,
steps back by triggers in the database.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import kombu
import psycopg
from django.conf import settings

from tests.platform import Platform, Process
from tests.waiting import wait_until

SHARDS = 64
_CREATE = """
from datetime import timedelta
from executions.clock import database_now
from jobs import definitions
from jobs.recurrence import Cron, Once
now = database_now()
for number, key in enumerate({keys}):
    priority = number % 9 + 1
    definitions.create(key=key, task="onbeat.echo", schedule=Cron("* * * * * *"), priority=priority, now=now)
{others}
"""
# Those that a beat has no reason to take, or to take twice, while nobody loses messages and no worker dies.
_WATCH = """
CREATE TABLE step_back (what text);
CREATE FUNCTION record_step_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO step_back VALUES (format('%s: from %s to %s', TG_ARGV[0], OLD, NEW));
  RETURN NEW;
END $$;
CREATE TRIGGER schedule_goes_back BEFORE UPDATE ON onbeat_schedule FOR EACH ROW
  WHEN (NEW.next_fire_at <= OLD.next_fire_at OR NEW.version <= OLD.version)
  EXECUTE FUNCTION record_step_back('schedule');
CREATE TRIGGER execution_goes_back BEFORE UPDATE ON onbeat_execution FOR EACH ROW
  WHEN (NEW.state = 'SCHEDULED' AND OLD.state <> 'SCHEDULED' OR NEW.state = 'QUEUED' AND OLD.state <> 'SCHEDULED')
  EXECUTE FUNCTION record_step_back('execution');
"""


class Pulses:
    """So many jobs that fire every second; whoever starts beats decides how many."""

    def __init__(self, folder: Path, *, count: int, others: str = "", **environment: str) -> None:
        self.platform = Platform(folder, is_full=True)
        self.platform.environment |= environment
        self.keys = [f"pulse-{number:02}" for number in range(count)]
        self._others = others
        self._stack = ExitStack()
        self._messages: list[Any] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.platform)
            self.platform.migrate()
            self.platform.manage("shell", "-c", _CREATE.format(keys=self.keys, others=self._others))
            self.change(_WATCH)
            # Any: the stubs know only the channels that all transports have in common.
            connection: Any = stack.enter_context(kombu.Connection(settings.CELERY_BROKER_URL))
            self.channel = connection.channel()
            self._listen()
            stack.callback(self.channel.queue_delete, self.queue("copies"))
            self.pass_seconds(1)  # the second in which the jobs were made has no fire
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _listen(self) -> None:
        """Messages are copied to a queue without priorities, so that it keeps the order in which they were sent."""
        self.channel.exchange_declare(self.queue("work"), "direct", durable=True, auto_delete=False)
        self.channel.queue_declare(self.queue("copies"), durable=True, auto_delete=False)
        self.channel.queue_bind(self.queue("copies"), self.queue("work"), routing_key="default")

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

    def fires(self, since: int, until: int) -> list[tuple[str, int, str, str]]:
        """Job, second, state and id of each row of that stretch."""
        return self.rows(
            "SELECT key, extract(epoch FROM fire_time)::bigint, e.state, e.id::text "
            "FROM onbeat_execution e JOIN onbeat_job j ON j.id = job_id "
            f"WHERE fire_time >= to_timestamp({since}) AND fire_time < to_timestamp({until}) "
            "AND trigger = 'SCHEDULE' AND key LIKE 'pulse-%'"
        )

    def messages(self) -> list[Any]:
        """All messages until now, in the order in which they were sent."""
        self._messages += iter(lambda: self.channel.basic_get(self.queue("copies"), no_ack=True), None)
        return self._messages

    def sent(self, *, by: Process | None = None) -> Counter[str]:
        """How often each execution was sent until now, by any beat or by one."""
        return Counter(
            message.properties["message_id"]
            for message in self.messages()
            if by is None or message.headers["origin"].startswith(f"gen{by.pid}@")
        )

    def shards_of(self, beat: Process) -> int:
        """How many it says it has; 0 before it said anything."""
        return sum(shards for (shards,) in self.rows(f"SELECT shards FROM onbeat_beat WHERE pid = {beat.pid}"))

    def steps_back(self) -> list[str]:
        """What was undone, or done a second time, since the beginning."""
        return [what for (what,) in self.rows("SELECT what FROM step_back")]

    # ── What the test waits for ──────────────────────────────────────────────────────────────────────────────────

    def share_the_work(self, *beats: Process) -> None:
        """These and no others tick from now on, reach everything, and have all shards between them."""
        for beat in beats:
            assert beat.is_running(), beat.output()[-3000:]
        now = self.rows("SELECT clock_timestamp()")[0][0]
        facts = (
            "SELECT pid, shards FROM onbeat_beat WHERE NOT (is_broker_away OR is_redis_away) "
            f"AND ticked_at > '{now.isoformat()}'"
        )
        pids = {beat.pid for beat in beats}

        def is_so() -> bool:
            shares = dict(self.rows(facts))
            return shares.keys() == pids and sum(shares.values()) == SHARDS

        wait_until(is_so, what=f"beats {sorted(pids)} are well and share the work")

    def pass_seconds(self, count: int, *, since: int | None = None) -> None:
        until = (self.second() if since is None else since) + count
        wait_until(lambda: self.second() >= until, what=f"{count} seconds have passed")

    def are_published(self, *, until: int) -> None:
        waiting = (
            "SELECT count(*) FROM onbeat_execution WHERE state = 'SCHEDULED' AND queue = 'default' "
            f"AND fire_time < to_timestamp({until})"
        )
        wait_until(lambda: self.count(waiting) == 0, what="everything that was due is published", seconds=60)

    def go_on(self, since: int, until: int) -> None:
        """Each fire of that stretch has its row, and was published."""
        try:
            wait_until(lambda: not self._unpublished(since, until), what="all fires are published", seconds=60)
        except AssertionError as error:
            raise AssertionError(f"{error}; not published: {self._unpublished(since, until)}") from None

    def _unpublished(self, since: int, until: int) -> list[tuple[str, int]]:
        """Those that have no row, or one that is still SCHEDULED."""
        published = {(key, second) for key, second, state, _ in self.fires(since, until) if state != "SCHEDULED"}
        return sorted(set(product(self.keys, range(since, until))) - published)

    @contextmanager
    def every_second_fires_once(self, *, states: Collection[str] = ("QUEUED",)) -> Iterator[None]:
        """From before the outage until after it. Every row must also have had its message; a second one is harmless."""
        since = self.second()
        yield
        until = self.second() + 1
        self.go_on(since, until)
        self.assert_each_second_once(since, until, states=states)

    def assert_each_second_once(self, since: int, until: int, *, states: Collection[str]) -> None:
        expected = Counter(product(self.keys, range(since, until)))
        rows = self.fires(since, until)
        found = Counter((key, second) for key, second, _, _ in rows)
        missing, unexpected = expected - found, found - expected
        assert not missing, f"missing: {missing}"
        assert not unexpected, f"too many: {unexpected}"
        others = [row for row in rows if row[2] not in states]
        assert not others, f"in other states: {others}"
        sent = self.sent()
        unsent = [row for row in rows if row[3] not in sent and row[2] != "CANCELLED"]
        assert not unsent, f"without a message: {unsent}"
