"""One run from its beginning to the verdict: start, load, faults, calm, comparison."""

import os
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import django
import psycopg

from chaos import evidence, load, plan
from chaos.callers import Caller, PythonCaller, RestCaller
from chaos.evidence import DRAINED_WITHIN_SECONDS, Evidence, moment
from chaos.forgotten import CRASHES
from chaos.journal import Journal
from chaos.judge import Breach, judge
from chaos.plan import Crew, Fault
from chaos.striking import Striker, Struck
from chaos.tap import Tap
from chaos.world import World, a_world, addresses_by
from launcher.progress import Say, step

_TELL_EVERY_SECONDS = 10.0
_OPEN = """
SELECT j.key || ' ' || e.state, count(*) FROM onbeat_execution e JOIN onbeat_job j ON j.id = e.job_id
WHERE e.state IN ('SCHEDULED', 'QUEUED', 'RUNNING') AND e.fire_time <= %(t)s GROUP BY 1
UNION ALL
SELECT j.key || ' not planned', 1 FROM onbeat_schedule s JOIN onbeat_job j ON j.id = s.job_id
WHERE s.is_active AND s.next_fire_at <= %(t)s ORDER BY 2 DESC, 1
"""


@dataclass
class Verdict:
    seed: int
    seconds: float
    crew: Crew
    evidence: Evidence
    struck: Sequence[Struck]
    arrived_at: dict[tuple[str, int], float]
    starts: dict[str, int] = field(default_factory=dict)
    breaches: Sequence[Breach] = ()


def run(
    seed: int,
    seconds: float,
    *,
    say: Say,
    tell: Callable[[Fault], None],
    kinds: Collection[str] = (),
    guard: str = "",
    keep: Path | None = None,
    drained_within: float = DRAINED_WITHIN_SECONDS,
) -> Verdict:
    crew = plan.crew_of(seed)
    faults = plan.plan(seed, seconds, crew, kinds)
    with a_world(crew, say, guard=guard, keep=keep) as world:
        return _Run(world, seed, seconds, faults, say, tell, drained_within).verdict()


class _Run:
    def __init__(
        self,
        world: World,
        seed: int,
        seconds: float,
        faults: Sequence[Fault],
        say: Say,
        tell: Callable[[Fault], None],
        drained_within: float,
    ) -> None:
        self._world = world
        self._seed = seed
        self._seconds = seconds
        self._say = say
        self._drained_within = drained_within
        self._journal = Journal()
        self._tap = Tap(world.servers.addresses.broker_url)
        self._striker = Striker(world, faults, tell)

    def verdict(self) -> Verdict:
        self._be_an_app()
        self._tap.open()
        secret = self._prepare_load()
        began, began_at = time.monotonic(), time.time()
        callers = self._callers(began + self._seconds, secret)
        with step(self._say, f"Faults strike for {self._seconds:.0f} s"):
            for caller in callers:
                caller.start()
            self._striker.run(began)
            for caller in callers:
                caller.join()
            time.sleep(max(0.0, began + self._seconds - time.monotonic()))
        until = time.time()
        last_fault = max((each.ended_at for each in self._striker.struck), default=until)
        with step(self._say, "Waiting until all is over"):
            drained_after = self._wait_until_drained(moment(until), last_fault)
        with step(self._say, "Stopping, and comparing"):
            crew = self._world.crew
            for names in (crew.beats, crew.workers, (crew.web,)):
                self._world.platform.stop_all(names)
            self._tap.close()
            collected = self._collect(moment(began_at), moment(until), callers, drained_after)
        return Verdict(
            seed=self._seed,
            seconds=self._seconds,
            crew=crew,
            evidence=collected,
            struck=self._striker.struck,
            arrived_at=self._tap.arrived_at,
            starts={name: place.starts for name, place in self._world.platform.places.items()},
            breaches=judge(collected),
        )

    def _be_an_app(self) -> None:
        """This process is the app that uses the Python interface, over lines of its own."""
        os.environ |= {**self._world.environment, **addresses_by(self._world.lines[self._world.crew.app])}
        os.environ["DJANGO_SETTINGS_MODULE"] = "scheduler_project.settings"
        django.setup()

    def _prepare_load(self) -> str:
        """All jobs, and a key for the API; its secret."""
        from access import api_keys
        from access.roles import Role

        for job in load.made_at_the_beginning():
            load.create(job, self._world.receiver_line.url)
        return api_keys.make(name="chaos", role=Role.EDITOR).secret

    def _callers(self, until: float, secret: str) -> list[Caller]:
        return [
            RestCaller(self._journal, self._seed, until, url=self._world.web_url, secret=secret),
            PythonCaller(self._journal, self._seed, until),
        ]

    def _wait_until_drained(self, until: datetime, last_fault: float) -> float | None:
        """How long after the last fault, and the last that is judged, all was over. None: it took too long."""
        since = max(last_fault, until.timestamp())
        tell_at = time.time() + _TELL_EVERY_SECONDS
        while True:
            left = self._left(until)
            if left == []:
                return max(0.0, time.time() - since)
            if left and time.time() > tell_at:
                tell_at = time.time() + _TELL_EVERY_SECONDS
                self._say(f"  {sum(count for _, count in left)} are not over: {_listed(left)}")
            if time.time() > since + self._drained_within:
                return None
            time.sleep(0.25)

    def _left(self, until: datetime) -> list[tuple[str, int]] | None:
        """What was due and is not over; None while the database is coming back."""
        try:
            with self._world.servers.database() as database:
                return database.execute(_OPEN.encode(), {"t": until}).fetchall()
        except psycopg.Error:
            return None

    def _collect(
        self, began_at: datetime, until: datetime, callers: Sequence[Caller], drained_after: float | None
    ) -> Evidence:
        return evidence.collect(
            self._world.servers,
            self._world.ledger,
            began_at=began_at,
            until=until,
            journal=self._journal.entries,
            copies=self._tap.copies,
            drained_within=self._drained_within,
            drained_after=drained_after,
            findings=[*self._world.platform.findings, *self._own_faults(callers)],
            crashes=[(one.began_at, one.ended_at) for one in self._striker.struck if one.fault.kind in CRASHES],
        )

    def _own_faults(self, callers: Sequence[Caller]) -> Iterator[str]:
        """What failed in the harness itself: such a run proves nothing, and must not look clean."""
        for caller in callers:
            if caller.error is not None:
                said = "".join(traceback.format_exception(caller.error))
                yield f"the caller {caller.name} of the harness failed:\n{said}"
        if self._tap.error:
            yield self._tap.error
        for each in self._striker.struck:
            if each.error:
                yield f"the harness could not strike with {each.fault}:\n{each.error}"


def _listed(left: Sequence[tuple[str, int]], most: int = 6) -> str:
    shown = ", ".join(f"{name} {count}" for name, count in left[:most])
    return f"{shown}, …" if len(left) > most else shown
