"""RabbitMQ: whether our queues are as we declare them, whether messages pass, and whether somebody takes them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from celery import current_app
from django.conf import settings

from executions import broker_state, queues
from executions.broker_line import BROKER_ERRORS
from executions.broker_state import BrokerState, Standing, TakesNothing
from executions.models import DEFAULT_QUEUE, Execution, HourlyTotal, QueueSample
from executions.rabbitmq_api import ApiAway, RabbitmqApi
from executions.storable import in_a_line
from executions.surroundings import without_logins, without_secrets
from executions.words import count
from jobs.http_target import HTTP_QUEUE
from jobs.models import Job
from terminal.doctor.findings import Examined, Fault, Finding
from terminal.doctor.visit import Visit

OLDEST = (3, 10)
DENIES_TRANSIENT_QUEUES = (4, 3)
# Of quorum queues: two, 0 to 4 and 5 to 9; and each by itself.
HAS_TWO_PRIORITIES, HAS_ALL_PRIORITIES = (4, 0), (4, 3)
MOST_QUEUES = 200
_HISTORY = timedelta(days=30)

UNREACHABLE = Fault(
    "rabbitmq.E01",
    means="Nothing is published: what is due waits in the database, and runs when the broker is back.",
    remedy="Start it, or correct CELERY_BROKER_URL; beats and workers go on by themselves when it answers.",
)
TOO_OLD = Fault(
    "rabbitmq.E02",
    means="Queues, confirms and dead letters are tried with RabbitMQ 3.10 and later only.",
    remedy="Upgrade the server to RabbitMQ 3.10 or later.",
)
OTHER_ARGUMENTS = Fault(
    "rabbitmq.E03",
    means="Beats and workers declare it otherwise and are refused: nothing is published to it, nobody takes from it.",
    remedy="Let it run empty, delete it (rabbitmqctl delete_queue), and the next beat makes it anew.",
)
NO_DEAD_LETTERS = Fault(
    "rabbitmq.E04",
    means="The broker drops what no worker can take: its execution waits for a message that is gone.",
    remedy="Restart a beat or a worker: each declares exchange, queue and binding when it connects.",
)
NOBODY_TAKES = Fault(
    "rabbitmq.E05",
    means="Messages wait, and no worker reads this queue.",
    remedy="Start a worker for it: `./onbeat worker --queues` with the broker's name of the queue.",
)
TAKES_NOTHING = Fault(
    "rabbitmq.E06",
    means="It is short of memory or disk, or hangs: what is due waits in the database until it takes messages again.",
    remedy="See `rabbitmqctl status` for alarms; free disk or memory, or let workers empty the queues.",
)
DENIES_TRANSIENT = Fault(
    "rabbitmq.E07",
    means="From 4.3 on RabbitMQ denies the transient queues that Celery makes by default: workers cannot start.",
    remedy="Set CELERY_CONTROL_QUEUE_EXCLUSIVE and CELERY_EVENT_QUEUE_EXCLUSIVE to True in the settings.",
)
ALARM = Fault(
    "rabbitmq.E08",
    means="The node blocks whoever publishes until it has room again.",
    remedy="Free disk or memory on that node, or let workers empty the queues.",
)
ORPHAN = Fault(
    "rabbitmq.W01",
    means="No open job and no open execution names it, and nobody takes from it: what lies in it stays there.",
    remedy="Delete it (rabbitmqctl delete_queue) once you know that nobody misses what it holds.",
)
NO_API = Fault(
    "rabbitmq.W02",
    means="Alarms of the nodes, and queues that nobody can name, are not seen.",
    remedy="Correct ONBEAT_EXECUTIONS_RABBITMQ_API_URL, or leave it out.",
)
FEW_PRIORITIES = Fault(
    "rabbitmq.W03",
    means="Quorum queues have priorities from RabbitMQ 4.0 on, two of them, and all of ours from 4.3 on.",
    remedy="Upgrade RabbitMQ, or give what is urgent a queue and workers of its own.",
)
NOT_MADE = Fault(
    "rabbitmq.N01",
    means="Nothing was published here yet: the first beat makes exchanges and queues.",
    remedy="Start a beat, if there is to be one.",
)


def examine(visit: Visit) -> Examined:
    known = _known(visit)
    findings: list[Finding] = []
    says = "does not answer"
    try:
        with broker_state.opened() as state:
            there = broker_state.standings(state, known.in_order[:MOST_QUEUES])
            says = f"RabbitMQ {state.version}, {count(len(there), 'queue')} of ours"
            findings += [*_version(state.version), *_arguments(state, known, there), *_takers(visit, known, there)]
            findings += [*_orphans(known, there), *_api(state, known, there)]
            # Last: a broker that blocks whoever publishes answers nothing more on this line.
            findings += _passage(state, is_used=bool(there))
    except TakesNothing as error:
        findings.append(TAKES_NOTHING.found(f"The broker answers, and takes no messages: {error}."))
    except BROKER_ERRORS as error:
        why = without_logins(in_a_line(error))
        findings.append(UNREACHABLE.found(f"{without_secrets(settings.CELERY_BROKER_URL)} does not answer: {why}"))
    return Examined(says, findings)


@dataclass(frozen=True)
class _Known:
    """Queues by the jobs' names."""

    open: frozenset[str]  # that something of now names
    history: frozenset[str]  # that something of before does

    @property
    def in_order(self) -> list[str]:
        return [*sorted(self.open), *sorted(self.history - self.open)]


def _known(visit: Visit) -> _Known:
    always = {DEFAULT_QUEUE, HTTP_QUEUE}
    if not visit.is_database_sound:
        return _Known(frozenset(always), frozenset())
    of_jobs = Job.objects.open().order_by().values_list("queue", flat=True).distinct()
    of_runs = Execution.objects.open().order_by().values_list("queue", flat=True).distinct()
    counted = HourlyTotal.objects.filter(hour__gte=visit.now - _HISTORY).order_by().values_list("queue", flat=True)
    sampled = QueueSample.objects.order_by().values_list("queue", flat=True).distinct()
    consumed = {queues.job_queue_name(name) for worker in visit.workers for name in worker.queues}
    history = {*counted.distinct(), *sampled, *filter(None, consumed)}
    return _Known(frozenset({*always, *of_jobs, *of_runs}), frozenset(history))


def _version(version: str) -> Iterator[Finding]:
    number = broker_state.numbers(version)
    if number < OLDEST:
        yield TOO_OLD.found(f"The server is RabbitMQ {version}.")
    names = ("control_queue_exclusive", "event_queue_exclusive")
    shared = [name for name in names if not current_app.conf[name]]
    if number >= DENIES_TRANSIENT_QUEUES and shared:
        yield DENIES_TRANSIENT.found(f"The server is RabbitMQ {version}, and {' and '.join(shared)} is off.")
    if queues.are_quorum() and number < HAS_ALL_PRIORITIES:
        has = "two priorities" if number >= HAS_TWO_PRIORITIES else "no priorities"
        yield FEW_PRIORITIES.found(f"The server is RabbitMQ {version}, whose quorum queues have {has}.")


def _arguments(state: BrokerState, known: _Known, there: Mapping[str, Standing]) -> Iterator[Finding]:
    for name in sorted(known.open & there.keys()):
        queue = queues.work_queue(name)
        if why := state.why_other_queue(queue):
            yield OTHER_ARGUMENTS.found(f"The queue {queue.name!r} exists otherwise: {why}.", queue=queue.name)
    for exchange in (queues.exchange(), queues.dead_letter_exchange()):
        if state.has_exchange(exchange) and (why := state.why_other_exchange(exchange)):
            yield OTHER_ARGUMENTS.found(f"The exchange {exchange.name!r} exists otherwise: {why}.", queue=exchange.name)
    dead = queues.dead_letter_queue()
    if state.standing(dead.name) and (why := state.why_other_queue(dead)):
        yield OTHER_ARGUMENTS.found(f"The queue {dead.name!r} exists otherwise: {why}.", queue=dead.name)


def _takers(visit: Visit, known: _Known, there: Mapping[str, Standing]) -> Iterator[Finding]:
    consumed = visit.consumed if visit.is_database_sound else frozenset()
    for name in sorted(known.open & there.keys()):
        standing, broker_name = there[name], queues.work_queue(name).name
        if standing.consumers:
            continue
        if standing.messages:
            says = f"{count(standing.messages, 'message')} in {broker_name!r}, and the broker knows no consumer of it."
            yield NOBODY_TAKES.found(says, queue=broker_name, messages=standing.messages)
        elif name in consumed:
            says = f"Workers say that they read {broker_name!r}, and the broker knows no consumer of it."
            yield NOBODY_TAKES.found(says, queue=broker_name, messages=0)


def _orphans(known: _Known, there: Mapping[str, Standing]) -> Iterator[Finding]:
    for name in sorted(there.keys() - known.open):
        if not there[name].consumers:
            yield _orphan(queues.work_queue(name).name, there[name].messages)


def _orphan(broker_name: str, messages: int) -> Finding:
    says = f"Nobody uses the queue {broker_name!r}; {count(messages, 'message')} in it."
    return ORPHAN.found(says, queue=broker_name, messages=messages)


def _api(state: BrokerState, known: _Known, there: Mapping[str, Standing]) -> Iterator[Finding]:
    """Of queues only what was not seen by name."""
    if not settings.ONBEAT_EXECUTIONS_RABBITMQ_API_URL:
        return
    api = RabbitmqApi(settings.ONBEAT_EXECUTIONS_RABBITMQ_API_URL)
    try:
        alarms, found = api.alarms(), api.queues(state.virtual_host, queues.prefix())
    except ApiAway as error:
        address = without_secrets(settings.ONBEAT_EXECUTIONS_RABBITMQ_API_URL)
        yield NO_API.found(f"The management API at {address} cannot be asked: {error}.")
        return
    for alarm in alarms:
        yield ALARM.found(f"{alarm}.")
    seen = {queues.DEAD_LETTERS, *there, *known.open}
    for queue in found:
        if not queue.consumers and queues.job_queue_name(queue.name) not in seen:
            yield _orphan(queue.name, queue.messages)


def _passage(state: BrokerState, *, is_used: bool) -> Iterator[Finding]:
    """Whether messages pass, and what is rejected arrives where it is collected."""
    state.try_to_publish()
    exchange, queue = queues.dead_letter_exchange(), queues.dead_letter_queue()
    missing = [] if state.has_exchange(exchange) else [f"the exchange {exchange.name!r}"]
    missing += [] if state.standing(queue.name) else [f"the queue {queue.name!r}"]
    if missing and not is_used:
        yield NOT_MADE.found("There is neither a queue for work nor one for dead letters.")
    elif missing:
        yield NO_DEAD_LETTERS.found(f"There is no place for dead letters: {' and '.join(missing)} is missing.")
    elif not state.is_dead_letter_queue_bound():
        yield NO_DEAD_LETTERS.found(f"{queue.name!r} is not bound to {exchange.name!r}: what is rejected gets lost.")
    elif not state.moves_what_is_rejected():
        yield NO_DEAD_LETTERS.found(f"A message that was rejected did not pass {exchange.name!r}.")
