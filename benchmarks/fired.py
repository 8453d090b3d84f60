"""What became of fires: their rows, their messages, and which beat published them.

Invariant: no figure is told of fires of which one is missing or there twice. Each has one execution, which is QUEUED,
and at least one message, told apart by its id. A second message is counted: a worker drops it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from beat.shards import COUNT, share_of
from benchmarks import our_beat
from benchmarks.stage import Stage
from launcher.refusal import Refusal

_SILENCE_SECONDS = 10


class Fired(NamedTuple):
    """The row of one fire. It is queued at the moment at which its beat has the broker's confirms."""

    pk: UUID
    job_id: int
    priority: int
    state: str
    fire_time: datetime
    queued_at: datetime | None

    @property
    def late_seconds(self) -> float:
        assert self.queued_at is not None
        return (self.queued_at - self.fire_time).total_seconds()


def read(prefix: str = "") -> list[Fired]:
    """The rows of the jobs whose keys begin like this."""
    from executions.models import Execution

    rows = Execution.objects.filter(job__key__startswith=prefix)
    return [Fired._make(row) for row in rows.values_list(*Fired._fields)]


def take_messages(stage: Stage) -> Counter[str]:
    """All that wait in the queue, out of it: how many there are of each execution."""
    taken: Counter[str] = Counter()

    def count(message: Any) -> None:
        taken[message.properties["message_id"]] += 1

    depth = stage.depth(our_beat.QUEUE)
    tag = stage.channel.basic_consume(stage.prefix + our_beat.QUEUE, callback=count, no_ack=True)
    with suppress(TimeoutError):  # then some are missing, which is seen by their ids
        while taken.total() < depth:
            stage.channel.connection.drain_events(timeout=_SILENCE_SECONDS)
    stage.channel.basic_cancel(tag)
    return taken


def see_that_each_is_there_once(rows: Sequence[Fired], messages: Mapping[str, int], *, fires: int) -> int:
    """Of all fires. Returns how many messages there are beside the first of each."""
    queued = {row.job_id for row in rows if row.state == "QUEUED"}
    lost = fires - len(queued)
    doubled = len(rows) - len({row.job_id for row in rows})
    unsent = sum(1 for row in rows if not messages.get(str(row.pk)))
    strange = len(messages.keys() - {str(row.pk) for row in rows})
    if lost or doubled or unsent or strange:
        raise Refusal(
            f"Of {fires:,} fires {lost:,} have no execution that is QUEUED, {doubled:,} have one too many and "
            f"{unsent:,} have no message; {strange:,} messages are of no fire: no figure is worth that."
        )
    return sum(messages.values()) - len(rows)


def by_beat(rows: Iterable[Fired], beats: Sequence[str]) -> dict[str, list[Fired]]:
    """Who looks after their shards, if all of these beats live."""
    holder = {shard: beat for beat in beats for shard in share_of(beat, beats)}
    found: dict[str, list[Fired]] = {beat: [] for beat in beats}
    for row in rows:
        found[holder[row.job_id % COUNT]].append(row)
    return found
