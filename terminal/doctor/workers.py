"""Workers: whether somebody takes work, and what those hold that are lost."""

from collections.abc import Iterator

from django.db.models import Count

from executions.models import Execution
from executions.version import VERSION
from executions.words import away, count
from terminal.doctor.findings import Examined, Fault, Finding, named
from terminal.doctor.visit import Visit
from workers import pools

_MOST_NAMES = 1000

NONE_ALIVE = Fault(
    "workers.E01",
    means="Nothing runs; what is published waits in its queue.",
    remedy="Start a worker with `./onbeat worker`, or see in its log why it does not live.",
)
LOST_WITH_WORK = Fault(
    "workers.E02",
    means="The worker is gone and its attempts still count as running; a beat ends them within seconds, if one ticks.",
    remedy="See that a beat ticks; `./onbeat upkeep rescue` ends them now.",
)
SILENT = Fault(
    "workers.W01",
    means="It went without signing off, hangs, or is cut off from the database.",
    remedy="See what became of its machine; one that is gone for good leaves the registry after a day.",
)
OTHER_RELEASE = Fault(
    "workers.W02",
    means="Two releases side by side are fine while one replaces the other, and for no longer than that.",
    remedy="Restart the workers with this release, or call the doctor of theirs.",
)
UNTRIED_POOL = Fault(
    "workers.W03",
    means="Heartbeats, time limits and cancelling are not tried with this pool of Celery.",
    remedy="Start the worker with --pool prefork, threads or solo.",
)


def examine(visit: Visit) -> Examined:
    findings = [*_alive(visit), *_silent(visit), *_releases(visit), *_pools(visit)]
    at_once = sum(worker.concurrency for worker in visit.alive)
    says = f"{len(visit.alive)} alive, for {count(at_once, 'attempt')} at once" if visit.alive else "none is alive"
    return Examined(says, findings)


def _alive(visit: Visit) -> Iterator[Finding]:
    if not visit.alive:
        last = max((worker.heartbeat_at for worker in visit.workers), default=None)
        heard = f"the last one was heard {away(last, now=visit.now)}" if last else "none is registered"
        yield NONE_ALIVE.found(f"No worker is alive; {heard}.")


def _silent(visit: Visit) -> Iterator[Finding]:
    alive = {worker.name for worker in visit.alive}
    silent = [worker.name for worker in visit.workers if worker.name not in alive][:_MOST_NAMES]
    if not silent:
        return
    held = dict(
        Execution.objects.running()
        .filter(worker__in=silent, awaited_until=None)
        .order_by()
        .values_list("worker")
        .annotate(Count("pk"))
    )
    if held:
        says = f"{count(sum(held.values()), 'attempt')} of workers that are lost: {named(sorted(held))}."
        yield LOST_WITH_WORK.found(says, attempts=held)
    if idle := [name for name in silent if name not in held]:
        yield SILENT.found(f"Not heard of: {named(idle)}.", workers=idle)


def _releases(visit: Visit) -> Iterator[Finding]:
    others = sorted({worker.version or "unknown" for worker in visit.alive} - {VERSION})
    if others:
        names = [worker.name for worker in visit.alive if worker.version != VERSION]
        says = f"{count(len(names), 'worker')} of release {', '.join(others)}, and this is {VERSION}: {named(names)}."
        yield OTHER_RELEASE.found(says, workers=names, releases=others)


def _pools(visit: Visit) -> Iterator[Finding]:
    odd = {
        worker.name: worker.pool for worker in visit.alive if worker.pool and worker.pool not in pools.TESTED.values()
    }
    if odd:
        says = f"With the pool {', '.join(sorted(set(odd.values())))}: {named(sorted(odd))}."
        yield UNTRIED_POOL.found(says, pools=odd)
