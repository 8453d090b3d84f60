"""Which fault strikes when, and whom. Pure: the same seed, length and crew give the same plan.

A deck that holds each kind of fault is shuffled, dealt and shuffled anew. Whoever is being struck is left alone until
that is over: a server that is starting is not told to stop, so that each fault does what its name says.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

# So long it is on average from one fault to the next, if there is the time for it; a short run deals faster.
_LONGEST_GAP_SECONDS = 4.0
_QUIET_AT_END_SECONDS = 2.0
SERVERS = ("postgres", "redis", "rabbitmq")


@dataclass(frozen=True)
class Crew:
    """Who runs the platform, beside its three servers."""

    beats: tuple[str, ...]
    workers: tuple[str, ...]
    web: str = "web"
    app: str = "app"  # the harness itself, which uses the Python interface over lines of its own

    @property
    def everybody(self) -> tuple[str, ...]:
        return (*self.beats, *self.workers, self.web)


@dataclass(frozen=True)
class Kind:
    """One kind of fault: whom it may strike, for how long, and what it does to others while it lasts."""

    whom: str  # beat, worker, web, a server, or whose line it is
    seconds: tuple[float, float]  # how long it lasts
    until_well: float = 0.0  # how long the one that was struck needs afterwards, roughly
    details: Sequence[str] = ("",)
    besides: tuple[str, ...] = ()  # who else is struck by it


BEAT_STEPS = (
    "leased-to-plan",  # the leases of the plan are taken
    "within-the-plan",  # the schedules are advanced, the executions not yet inserted, nothing is committed
    "planned",  # the plan is committed
    "leased-to-publish",  # the leases of a batch are taken
    "within-the-batch",  # the broker has half of the bytes of a batch
    "confirmed",  # the broker has confirmed the batch, no row tells it yet
    "marked",  # the rows are QUEUED, the leases are still held
)
WORKER_STEPS = (
    "locked",  # the lock of a limited job is taken, to claim or to finish, nothing is committed
    "claimed",  # the row is RUNNING, the handler has not begun
    "worked",  # the handler is done, no row tells it yet
    "finished",  # the end is committed, the message is not acknowledged yet
    "retry-stored",  # the same, and the next attempt waits in the database
)
KINDS: dict[str, Kind] = {
    # ── Processes ──
    "beat killed": Kind("beat", (0, 0), 3),
    "beat told to stop": Kind("beat", (0, 0), 5),
    "beat frozen": Kind("beat", (1, 7)),
    "beat killed at a step": Kind("beat", (3, 3), 3, BEAT_STEPS),
    "beat frozen at a step": Kind("beat", (4, 8), 3, BEAT_STEPS),
    "beat's clock moved": Kind("beat with a clock", (4, 8), 2, ("+5", "+90", "-90", "-3600", "+86400")),
    "worker killed": Kind("worker", (0, 0), 4),
    "worker's parent killed": Kind("worker", (0, 0), 4),
    "worker's child killed": Kind("worker", (0, 0), 1),
    "worker told to stop": Kind("worker", (0, 0), 8),
    "worker frozen": Kind("worker", (1, 10)),
    "worker killed at a step": Kind("worker", (4, 4), 4, WORKER_STEPS),
    "child killed at a step": Kind("worker", (4, 4), 2, WORKER_STEPS),
    "child frozen at a step": Kind("worker", (4, 10), 2, WORKER_STEPS),
    "web killed": Kind("web", (0, 0), 3),
    "web told to stop": Kind("web", (0, 0), 4),
    "web frozen": Kind("web", (1, 4)),
    # ── Servers ──
    "Redis killed": Kind("redis", (1, 4), 1),
    "Redis flushed": Kind("redis", (0, 0)),
    "Redis frozen": Kind("redis", (1, 5)),
    "RabbitMQ killed": Kind("rabbitmq", (0, 2), 12),
    "RabbitMQ restarted": Kind("rabbitmq", (0, 1), 14),
    "RabbitMQ's memory alarm": Kind("rabbitmq", (2, 6), 4),
    "RabbitMQ's connections cut": Kind("rabbitmq", (0, 0), 3),
    "a queue purged": Kind("rabbitmq", (0, 0), 1, ("default", "http")),
    "PostgreSQL restarted, immediate": Kind("postgres", (0, 2), 3),
    "PostgreSQL restarted, fast": Kind("postgres", (0, 2), 3),
    "PostgreSQL's connections cut": Kind("postgres", (0, 0), 1),
    "PostgreSQL frozen": Kind("postgres", (1, 6), 1),
    "the executions locked": Kind("postgres", (1, 6), 1),
    "serialization errors": Kind("postgres", (1, 4)),
    "deadlock errors": Kind("postgres", (1, 4)),
    "a real deadlock": Kind("postgres", (0.5, 0.8), 5),
    "the disk full": Kind("postgres", (2, 6), 4, besides=("redis", "rabbitmq")),
    # ── The network ──
    "confirms withheld": Kind("beat", (2, 8), 1),
    "line cut": Kind("anybody", (1, 6), 1, SERVERS),
    "line frozen": Kind("anybody", (1, 6), 1, SERVERS),
    "line slow": Kind("anybody", (2, 6), 0, SERVERS),
    "line half-open, server gone": Kind("anybody", (0, 0), 1, SERVERS),
    "line half-open, caller gone": Kind("anybody", (3, 8), 1, SERVERS),
    "line to the receiver cut": Kind("receiver", (1, 3)),
    "line to the web process cut": Kind("callers", (1, 4)),
    "line to the web process frozen": Kind("callers", (1, 4)),
}


@dataclass(frozen=True)
class Fault:
    at: float  # seconds from the beginning
    kind: str
    whom: str
    seconds: float
    detail: str = ""
    draw: float = field(default=0.0, repr=False)  # for what is only known when it strikes, such as which child

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        about = f" ({self.detail})" if self.detail else ""
        return f"{self.at:6.1f} s  {self.kind}: {self.whom}{about}{lasts}"


def crew_of(seed: int) -> Crew:
    """Two to four beats, two or three workers."""
    draw = random.Random(f"crew {seed}")
    beats = tuple(f"beat-{number + 1}" for number in range(draw.randint(2, 4)))
    return Crew(beats, draw.choice([("worker-1", "worker-2"), ("worker-1", "worker-2", "callbacks")]))


def plan(seed: int, seconds: float, crew: Crew, kinds: Collection[str] = ()) -> list[Fault]:
    """All faults of a run, each over when the run is."""
    wanted = [name for name in KINDS if not kinds or name in kinds]
    draw = random.Random(f"faults {seed}")
    gap = min(_LONGEST_GAP_SECONDS, seconds / (len(wanted) + 4))
    faults: list[Fault] = []
    is_free_at: dict[str, float] = {}
    deck: list[str] = []
    at = 1.0
    while at < seconds - _QUIET_AT_END_SECONDS:
        deck = deck or draw.sample(wanted, len(wanted))
        for place, name in enumerate(deck):
            kind = KINDS[name]
            whom, lasts = draw.choice(_all_of(kind.whom, crew)), round(draw.uniform(*kind.seconds), 1)
            fault = Fault(round(at, 1), name, whom, lasts, draw.choice(list(kind.details)), draw.random())
            struck = (whom, *kind.besides)
            is_free = all(is_free_at.get(each, 0) <= at for each in struck)
            if is_free and at + lasts <= seconds - _QUIET_AT_END_SECONDS:
                is_free_at |= dict.fromkeys(struck, at + lasts + kind.until_well)
                faults.append(fault)
                del deck[place]
                break
        at += draw.uniform(0.3, 1.7) * gap
    return faults


def _all_of(whom: str, crew: Crew) -> tuple[str, ...]:
    match whom:
        case "beat":
            return crew.beats
        case "beat with a clock":
            return crew.beats[:1]
        case "worker":
            return crew.workers
        case "anybody":
            return (*crew.everybody, crew.app)
    return (whom,)
