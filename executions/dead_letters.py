"""Dead letters: collected from the broker, run again, or discarded with a note.

Owns the table of messages that belong to no execution, and what becomes of a message that no worker took. The row is
the truth: the message of an execution only tells that its attempt has to be ended, if nobody has ended it. Invariant:
the database has it before the broker lets it go, and a message that is collected twice changes nothing the second time.
One message that cannot be dealt with holds up no other, and stays in the queue.
"""

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from django.db import transaction

from executions import concurrency, dead_letter_queue, events, lifecycle
from executions.broker_line import BROKER_ERRORS
from executions.dead_letter_groups import Group, Matching, groups
from executions.fingerprint import of_error
from executions.messages import Delivery
from executions.models import REASON_CHARACTERS, DeadMessage, Execution, ExecutionQuerySet
from executions.outages import is_outage
from executions.outcomes import Claim, Finish, Wish
from executions.replay import replay_waiting, settle
from executions.states import CLAIMABLE, State
from executions.storable import in_a_line, storable_text
from executions.undelivered import Undelivered, published_anew, restored

__all__ = [
    "Collected",
    "Group",
    "Matching",
    "MessagesReplayed",
    "Replayed",
    "collect",
    "discard",
    "discard_messages",
    "groups",
    "replay_matching",
    "replay_messages",
]

MOST_AT_ONCE = 5000
DEFAULT_REPLAYS_PER_SECOND = 10
WORKER = "dead-letter queue"  # stands in an attempt's record where the worker stands
FULL_QUEUE = "its queue was full; it is published again"
FULL_QUEUE_PAUSE = timedelta(seconds=30)
_PER_BATCH = 100
_PER_TRANSACTION = 500
# A beat has other duties beside this.
_PATIENCE_SECONDS = 2.0
_NOT_REGISTERED = ("NotRegistered", "celery.exceptions.NotRegistered")
_ALTERED = "onbeat_altered"  # among a stored message's properties: it could not be kept as it was
_NOT_SENT_AGAIN = ("user_id", "cluster_id", "expiration", _ALTERED)  # the broker checks the first ones, and drops them


# ── Collected ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Collected:
    """What became of the messages that were taken."""

    kept: int = 0  # as dead messages
    ended: int = 0  # attempts that nobody had run
    held: int = 0  # executions that are published again after a while
    dropped: int = 0  # their execution was over, went on without them, or is gone
    left: int = 0  # in the queue, for the next time

    @property
    def total(self) -> int:
        return self.kept + self.ended + self.held + self.dropped


class _Row(NamedTuple):
    """An execution, as far as its message is concerned."""

    pk: uuid.UUID
    attempt: int
    state: str
    available_at: datetime
    job_id: int
    job__max_concurrency: int | None


def collect(now: datetime, *, most: int = MOST_AT_ONCE) -> Collected:
    """Take what lies in the dead-letter queue into the database. Nothing if the broker is away."""
    collected = Collected()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    taken = 0
    try:
        with dead_letter_queue.opened() as queue:
            while batch := queue.take(min(_PER_BATCH, most - taken)):
                taken += len(batch)
                queue.let_go(_dealt_with(batch, collected, now))
                if time.monotonic() > deadline:
                    break
    except BROKER_ERRORS as error:
        if taken:  # what was not let go comes again
            events.warn("the broker went away while dead letters were collected", error=in_a_line(error))
    return collected


def _dealt_with(batch: Sequence[Undelivered], collected: Collected, now: datetime) -> list[Undelivered]:
    """Those of a batch that the database has."""
    ours = [(letter, letter.delivery) for letter in batch if letter.delivery is not None]
    others = [letter for letter in batch if letter.delivery is None]
    done = [*_of_executions(ours, collected, now), *_kept(others, collected, now)]
    collected.left += len(batch) - len(done)
    return done


# ── Messages of executions ───────────────────────────────────────────────────────────────────────────────────────


def _of_executions(
    letters: Sequence[tuple[Undelivered, Delivery]], collected: Collected, now: datetime
) -> Iterator[Undelivered]:
    ids = {named.execution_id for _, named in letters}
    rows = {row[0]: _Row._make(row) for row in Execution.objects.with_ids(ids).values_list(*_Row._fields)}
    full: list[tuple[Undelivered, _Row]] = []
    for letter, named in letters:
        row = rows.get(named.execution_id)
        if row is None:
            events.emit("a dead letter was dropped: its execution is gone", execution=named.execution_id)
        if row is None or row.attempt != named.attempt or row.state not in CLAIMABLE:
            collected.dropped += 1
            yield letter
        elif letter.death.reason == "maxlen":
            full.append((letter, row))
        elif _end(letter, row, collected, now):
            yield letter
    yield from _held(full, collected, now)


def _end(letter: Undelivered, row: _Row, collected: Collected, now: datetime) -> bool:
    """End the attempt in the place of the worker that did not take it. False: somebody holds the row; come again."""
    try:
        with transaction.atomic():
            if not _is_free(row):
                return False
            claim = lifecycle.claim(row.pk, row.attempt, worker=WORKER, now=now)
            if not isinstance(claim, Claim):
                collected.dropped += 1
                return True  # it was moved, or waits for room: it comes by itself
            finish = _fail(claim, letter, now)
    except Exception as error:
        if is_outage(error):
            raise
        events.warn("a dead letter could not be collected; it stays", execution=row.pk, error=in_a_line(error))
        return False
    collected.ended += 1
    events.warn("no worker took its message", execution=row.pk, attempt=row.attempt, then=finish, task=letter.task)
    return True


def _is_free(row: _Row) -> bool:
    """Hold what a claim needs, without waiting for anybody: an app may hold it for long."""
    if row.job__max_concurrency is not None and not concurrency.lock_free([row.job_id]):
        return False
    return Execution.objects.with_id(row.pk).select_for_update(skip_locked=True).values_list("pk").first() is not None


def _fail(claim: Claim, letter: Undelivered, now: datetime) -> Finish:
    """A message that was too old is too old for another try. Else the policy decides: a deploy may be under way."""
    wish = Wish(gives_up=True) if letter.death.reason == "expired" else None
    return lifecycle.fail(claim, error=letter.why_not_taken, kinds=_NOT_REGISTERED, wish=wish, now=now)


def _held(full: Sequence[tuple[Undelivered, _Row]], collected: Collected, now: datetime) -> list[Undelivered]:
    """Publish them again after a while. What is SCHEDULED for later comes by itself."""
    rows = [Execution(pk=r.pk, attempt=r.attempt) for _, r in full if r.state == State.QUEUED or r.available_at <= now]
    held = lifecycle.hold(rows, reason=FULL_QUEUE, until=now + FULL_QUEUE_PAUSE) if rows else 0
    collected.held += held
    if held < len(rows):
        return []  # somebody has one of them: next time those that are held now are done with
    collected.dropped += len(full) - held
    return [letter for letter, _ in full]


# ── Other messages ───────────────────────────────────────────────────────────────────────────────────────────────


def _kept(letters: Sequence[Undelivered], collected: Collected, now: datetime) -> list[Undelivered]:
    if not letters:
        return []
    try:
        with transaction.atomic():
            DeadMessage.objects.bulk_create([_row_of(letter, now) for letter in letters], ignore_conflicts=True)
        kept = list(letters)
    except Exception:  # for one of them: each alone, it is told which
        kept = [letter for letter in letters if _is_kept(letter, now)]
    collected.kept += len(kept)
    if kept:
        events.warn("messages that no worker took are kept as dead letters", count=len(kept))
    return kept


def _is_kept(letter: Undelivered, now: datetime) -> bool:
    """One of a batch of which not all can be kept."""
    try:
        with transaction.atomic():
            DeadMessage.objects.bulk_create([_row_of(letter, now)], ignore_conflicts=True)
    except Exception as error:
        if is_outage(error):
            raise
        events.warn("a dead letter could not be collected; it stays", queue=letter.death.queue, error=in_a_line(error))
        return False
    return True


def _row_of(letter: Undelivered, now: datetime) -> DeadMessage:
    altered = {} if letter.is_stored_as_it_was else {_ALTERED: True}
    return DeadMessage(
        digest=letter.digest,
        queue=letter.death.queue,
        exchange=letter.death.exchange,
        routing_key=letter.death.routing_key,
        task=letter.task,
        properties={**letter.stored_properties, **altered},
        headers=letter.stored_headers,
        body=letter.body,
        error=letter.why_not_taken,
        fingerprint=of_error(letter.why_not_taken),
        collected_at=now,
    )


# ── Settled by a person ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Replayed:
    count: int
    last_due_at: datetime | None  # when the last of them comes
    has_more: bool = False  # as many were replayed as were wanted at most


@dataclass
class MessagesReplayed:
    replayed: list[int] = field(default_factory=list)
    left: dict[int, str] = field(default_factory=dict)  # and why


def replay_matching(
    matching: Matching,
    *,
    now: datetime,
    per_second: int = DEFAULT_REPLAYS_PER_SECOND,
    note: str = "replayed",
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    most: int | None = None,
    begins_at: datetime | None = None,
) -> Replayed:
    """Run them again, in the order of their fire times, at most so many each second from now or a moment on."""
    begin = max(now, begins_at or now)
    moments = (begin + timedelta(seconds=number / per_second) for number in count())
    reason = f"waits for its turn: {per_second} replays a second"
    replayed, last = 0, None
    # A replay that died meanwhile is not replayed by the same call.
    for ids in _batches(matching.executions().filter(finished_at__lte=now), most=most):
        made = replay_waiting(ids, moments, now=now, note=note, reason=reason, args=args, kwargs=kwargs)
        replayed += len(made)
        last = made[-1].available_at if made else last
    return Replayed(replayed, last, has_more=replayed == most)


def discard(matching: Matching, *, note: str, now: datetime, most: int | None = None) -> int:
    """Mark them as handled, with what was decided. How many they were."""
    _check(note)
    return sum(settle(ids, note=note, now=now) for ids in _batches(matching.executions(), most=most))


def _batches(executions: ExecutionQuerySet, *, most: int | None) -> Iterator[list[uuid.UUID]]:
    """All of them, or the first so many."""
    in_order = executions.order_by("pk").values_list("pk", flat=True)
    left = most
    last: uuid.UUID | None = None
    while left is None or left > 0:
        following = in_order if last is None else in_order.filter(pk__gt=last)
        ids = list(following[: min(_PER_TRANSACTION, left or _PER_TRANSACTION)])
        if not ids:
            return
        yield ids
        last, left = ids[-1], None if left is None else left - len(ids)


def replay_messages(ids: Iterable[int], *, now: datetime, note: str = "replayed") -> MessagesReplayed:
    """Publish messages again into the queue they came from. Each is handled when the broker has confirmed it."""
    answer = MessagesReplayed()
    ids = list(dict.fromkeys(ids))
    if not ids:
        return answer
    try:
        with dead_letter_queue.publishing() as publish:
            for message_id in ids:
                if problem := _replay_message(message_id, publish, note=note, now=now):
                    answer.left[message_id] = problem
                else:
                    answer.replayed.append(message_id)
    except BROKER_ERRORS as error:
        rest = [each for each in ids if each not in answer.left and each not in answer.replayed]
        answer.left |= dict.fromkeys(rest, f"the broker is away; try again when it is back: {in_a_line(error)}")
    return answer


def _replay_message(message_id: int, publish: dead_letter_queue.Publish, *, note: str, now: datetime) -> str:
    with transaction.atomic():
        # Held while it is published, so that two who replay it at once publish it once.
        waiting = DeadMessage.objects.filter(pk=message_id, handled_at=None)
        message = waiting.select_for_update(skip_locked=True).first()
        if message is None:
            return "it is handled already, or there is no such dead message"
        if not message.queue:
            return "nobody knows which queue it came from; send it anew, and discard this one"
        if message.properties.get(_ALTERED):
            return "it could not be stored as it was, so it cannot be sent as it was; discard it"
        headers = published_anew(restored(message.headers), digest=message.digest)
        stored = {name: value for name, value in message.properties.items() if name not in _NOT_SENT_AGAIN}
        if problem := publish(message.queue, bytes(message.body), headers, restored(stored)):
            return problem
        _settle_messages([message_id], note=note, now=now)
    return ""


def discard_messages(ids: Collection[int], *, note: str, now: datetime) -> int:
    """Mark messages as handled, with what was decided. How many they were."""
    _check(note)
    return _settle_messages(ids, note=note, now=now)


def _settle_messages(ids: Collection[int], *, note: str, now: datetime) -> int:
    waiting = DeadMessage.objects.filter(pk__in=ids, handled_at=None)
    return waiting.update(handled_at=now, handled_note=storable_text(note, REASON_CHARACTERS))


def _check(note: str) -> None:
    if not note.strip():
        raise ValueError("A dead letter is discarded with a note; say what was decided about it.")
