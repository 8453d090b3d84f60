"""A platform that a real Prometheus watches: two beats, a worker and web with metrics, and lines that can be cut."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from django.conf import settings

from chaos.proxy import Proxy
from launcher import redis_server
from launcher.ports import HOST, free_port
from launcher.service_record import Ports, Record
from tests import scraping
from tests.acceptance.crew import Crew, Worker
from tests.platform import Process
from tests.prometheus import Prometheus, a_prometheus
from tests.waiting import wait_until

TOKEN = "a token of these tests, long enough"
UNREAD = "http"  # a queue that the worker does not take from; the platform removes it in the end
_SILENT_AFTER_SECONDS = 3
_FORGET = (
    "__import__('beat.upkeep.gone_beats', fromlist=['']).forget_gone_beats("
    f"database_now() + timedelta(hours=1, seconds=-{_SILENT_AFTER_SECONDS}))"
)


class OwnRedis:
    """That can be stopped, since nobody else uses it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = Record(location=str(folder), node="none", ports=Ports(redis=free_port(set())))

    @property
    def url(self) -> str:
        return self._record.addresses().redis_url

    def start(self) -> None:
        redis_server.start(self._folder, self._record)

    def stop(self) -> None:
        redis_server.stop(self._folder, self._record)


@dataclass
class Watched:
    crew: Crew
    web: str
    ports: list[int]  # of the beats
    worker_port: int
    redis: OwnRedis
    database: Proxy  # of web alone
    broker: Proxy
    beats: list[Process] = field(default_factory=list)
    worker: Worker | None = None
    prometheus: Prometheus = field(init=False)

    # ── What the test does ───────────────────────────────────────────────────────────────────────────────────────

    def start_beat(self, number: int) -> None:
        address = f"{HOST}:{self.ports[number]}"
        name = f"beat-{number}-{len(self.crew.platform.processes)}"
        self.beats.append(self.crew.platform.beat(name, ONBEAT_BEAT_METRICS_ADDRESS=address))

    def start_worker(self, *arguments: str) -> None:
        address = f"{HOST}:{self.worker_port}"
        # Always of the same name: whoever comes back takes the place of whom it replaces.
        self.worker = self.crew.worker("w", *arguments, ONBEAT_WORKERS_METRICS_ADDRESS=address)

    def mend(self) -> None:
        """Every server can be reached again."""
        self.redis.start()
        self.broker.mend()
        self.database.mend()

    def forget_gone_beats(self) -> None:
        """As upkeep does an hour later."""
        wait_until(lambda: self.crew.ask(_FORGET), what="the registry has forgotten a beat that was killed")

    # ── What the test looks at ───────────────────────────────────────────────────────────────────────────────────

    def metric(self, name: str) -> float | None:
        """As web shows it: `onbeat_beats{state=ticking}`."""
        return scraping.page(f"{self.web}/metrics", token=TOKEN).samples.get(name)

    def health(self) -> tuple[int, dict[str, Any]]:
        try:
            with urlopen(f"{self.web}/health/ready", timeout=30) as answer:
                return answer.status, json.load(answer)
        except HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def is_healthy(self) -> bool:
        return self.health()[1]["status"] == "ready"


@contextmanager
def a_watched_platform(folder: Path) -> Iterator[Watched]:
    """It is healthy when Prometheus begins to look at it."""
    with ExitStack() as stack:
        redis = OwnRedis(folder)
        stack.callback(redis.stop)
        redis.start()
        broker = stack.enter_context(Proxy(settings.CELERY_BROKER_URL))
        ports: list[int] = []
        for _ in range(3):
            ports.append(free_port({*ports}))
        crew = Crew(
            folder,
            is_full=True,
            REDIS_URL=redis.url,
            CELERY_BROKER_URL=broker.url,
            ONBEAT_EXECUTIONS_METRICS_TOKEN=TOKEN,
            ONBEAT_BEAT_METRICS_ADDRESS=f"{HOST}:{ports[0]}",
            ONBEAT_BEAT_SILENT_AFTER_SECONDS=str(_SILENT_AFTER_SECONDS),
            ONBEAT_EXECUTIONS_CONFIRM_SECONDS="1",
        )
        stack.enter_context(crew)
        database = stack.enter_context(Proxy(crew.platform.environment["DATABASE_URL"]))
        web = crew.platform.web(DATABASE_URL=database.url)
        watched = Watched(crew, web, ports[:2], ports[2], redis, database, broker, beats=crew.platform.processes[:1])
        watched.start_beat(1)
        watched.start_worker()
        wait_until(watched.is_healthy, what="the platform is healthy")
        wait_until(lambda: watched.metric("onbeat_ledger_age_seconds") is not None, what="the walk has begun")
        wait_until(lambda: watched.metric("onbeat_sample_age_seconds") is not None, what="a sample was taken")
        wait_until(lambda: watched.metric("onbeat_beats{state=ticking}") == 2, what="both beats tick")
        jobs = {
            "onbeat-web": [web.removeprefix("http://")],
            "onbeat-beats": [f"{HOST}:{port}" for port in watched.ports],
            "onbeat-workers": [f"{HOST}:{watched.worker_port}"],
        }
        watched.prometheus = stack.enter_context(a_prometheus(folder / "prometheus", jobs, token=TOKEN))
        yield watched
