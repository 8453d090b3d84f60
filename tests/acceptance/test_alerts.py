"""What goes wrong on a real platform raises its alert in a real Prometheus, and nothing else does.

One platform lives through all of these tests, one mishap after the other. Prometheus has the rules that are shipped,
with shorter times.
"""

from collections.abc import Iterator
from math import isnan
from signal import SIGKILL

import pytest

from deploy.monitoring.grafana import dashboard
from tests.acceptance.watched import UNREAD, Watched, a_watched_platform
from tests.prometheus import programs
from tests.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.prometheus]

WAITING = f"onbeat_queue_waiting{{queue={UNREAD}}}"
# What each panel asks, with what Grafana puts in place of its variables.
PANELS = {
    panel.title: {
        name: asked.replace("$__rate_interval", "20s").replace("$instance", ".+") for name, asked in panel.lines.items()
    }
    for panels in dashboard.ROWS.values()
    for panel in panels
}
PULSE = "definitions.create(key='pulse', task='onbeat.echo', schedule=Cron('* * * * * *')).key"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    programs()
    with a_watched_platform(tmp_path_factory.mktemp("watched")) as watched:
        assert watched.crew.ask(PULSE) == "pulse"
        yield watched


@pytest.fixture
def watched(started: Watched) -> Iterator[Watched]:
    """All is well before a test, and its servers are back after it, also if it failed."""
    started.prometheus.waits_for_quiet()
    yield started
    started.mend()


def test_a_healthy_platform_raises_no_alert(watched: Watched) -> None:
    for job, count in {"onbeat-web": 18, "onbeat-beats": 72, "onbeat-workers": 36}.items():
        watched.prometheus.scrapes(count, of=f'job="{job}"')
    assert watched.prometheus.ever_fired() == set()
    assert set(watched.prometheus.rules().values()) == {"ok"}
    # The pulse is seen, so the silence is not that of somebody who sees nothing.
    assert (watched.prometheus.value("sum(rate(onbeat_fires_planned_total[20s]))") or 0) > 0.5
    assert watched.metric("onbeat_ledger_missing_fires") == 0
    assert watched.health()[0] == 200


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_of_the_dashboard_has_something_to_show(watched: Watched, title: str) -> None:
    shown = {name: watched.prometheus.query(asked) for name, asked in PANELS[title].items()}
    # There need be no warnings, and nothing need wait or run at this moment.
    assert {name for name, values in shown.items() if not values} <= {"{{event}}", "{{queue}}"}
    assert not any(isnan(value) for values in shown.values() for value in values.values())


def test_a_beat_that_is_killed_is_told_and_so_is_the_last_one(watched: Watched) -> None:
    first, second = watched.beats
    first.signal(SIGKILL)
    firing = watched.prometheus.waits_for("OnbeatBeatSilent", "OnbeatScrapeFails")
    assert firing == {"OnbeatBeatSilent", "OnbeatScrapeFails"}
    assert watched.metric("onbeat_beats{state=ticking}") == 1
    assert watched.metric("onbeat_beats{state=silent}") == 1
    status, health = watched.health()
    assert (status, health["checks"]["beat"]["ok"]) == (200, True)

    second.signal(SIGKILL)
    watched.prometheus.waits_for("OnbeatNoBeat")
    assert watched.metric("onbeat_beats{state=ticking}") == 0
    status, health = watched.health()
    assert (status, health["status"]) == (503, "not ready")
    assert "no beat ticks" in health["checks"]["beat"]["says"]

    for number in (0, 1):
        watched.start_beat(number)
    del watched.beats[:2]
    watched.forget_gone_beats()
    watched.prometheus.waits_for_quiet()
    wait_until(watched.is_healthy, what="health says so as well")


def test_a_redis_that_is_stopped_is_told_and_fires_go_on(watched: Watched) -> None:
    watched.redis.stop()
    assert watched.prometheus.waits_for("OnbeatRedisAway") == {"OnbeatRedisAway"}
    assert watched.metric("onbeat_beats_without_redis") == 2
    status, health = watched.health()
    assert (status, health["status"], health["checks"]["redis"]["ok"]) == (200, "degraded", False)
    assert (watched.prometheus.value("sum(rate(onbeat_fires_planned_total[10s]))") or 0) > 0.5
    watched.mend()
    watched.prometheus.waits_for_quiet()
    wait_until(watched.is_healthy, what="health says so as well")


def test_a_broker_that_is_away_is_told(watched: Watched) -> None:
    watched.broker.cut()
    watched.prometheus.waits_for("OnbeatBrokerAway")
    assert watched.metric("onbeat_beats_without_broker") == watched.metric("onbeat_beats{state=ticking}") == 2
    assert not watched.health()[1]["checks"]["broker"]["ok"]
    watched.mend()
    watched.prometheus.waits_for_quiet()


def test_a_database_that_web_cannot_reach_is_told(watched: Watched) -> None:
    watched.database.cut()
    assert watched.prometheus.waits_for("OnbeatDatabaseAway") == {"OnbeatDatabaseAway"}
    assert watched.metric("onbeat_database_up") == 0
    assert watched.metric("onbeat_beats{state=ticking}") is None  # nothing old stands for something new
    assert watched.health()[0] == 503
    watched.mend()
    watched.prometheus.waits_for_quiet()


def test_a_queue_that_fills_and_that_nobody_reads_is_told(watched: Watched) -> None:
    job = watched.crew.ask(f"definitions.create(key='unread', task='onbeat.echo', queue={UNREAD!r}).key")
    waiting = 0

    def fill_and_look() -> bool:
        nonlocal waiting
        # As fast as it is seen, and no faster.
        if watched.metric(WAITING) == (waiting or None):
            waiting += watched.crew.ask(f"len([runs.run({job!r}) for _ in range(40)])")
        return watched.prometheus.firing() >= {"OnbeatQueueGrows", "OnbeatQueueUnattended"}

    wait_until(fill_and_look, what="both alerts fire", seconds=150)
    assert watched.prometheus.firing() == {"OnbeatQueueGrows", "OnbeatQueueUnattended"}
    named = watched.prometheus.query('count by (queue) (ALERTS{alertname=~"OnbeatQueue.+", alertstate="firing"})')
    assert named == {f"queue={UNREAD}": 2}
    said = wait_until(lambda: watched.metric(WAITING), what="what waits is told")
    assert (
        said
        <= waiting
        == watched.crew.platform.count(
            f"SELECT count(*) FROM onbeat_execution WHERE queue = '{UNREAD}' AND state = 'QUEUED'"
        )
    )

    with watched.crew.working("reader", "-Q", f"{watched.crew.platform.name}.{UNREAD}") as reader:
        watched.prometheus.waits_for_quiet()
        reader.process.terminate()


def test_work_that_fails_for_good_is_told(watched: Watched) -> None:
    before = watched.prometheus.value("sum(onbeat_dead_letters_total)") or 0
    watched.crew.run("crew.fails")  # with one attempt
    firing = watched.prometheus.waits_for("OnbeatRetriesExhausted")
    assert firing <= {"OnbeatRetriesExhausted", "OnbeatErrorRateUp"}
    wait_until(lambda: watched.metric("onbeat_dead_letters_waiting") == 1, what="it is seen to wait")
    wait_until(
        lambda: watched.prometheus.value("sum(onbeat_dead_letters_total)") == before + 1, what="it is counted once"
    )
    for _ in range(15):
        watched.crew.run("crew.fails")
    watched.prometheus.waits_for("OnbeatErrorRateUp")
    watched.prometheus.waits_for("OnbeatDeadLettersWaiting")
    watched.crew.platform.manage("dead_letters", "discard", "--yes", "--all", "--note", "a test")
    watched.prometheus.waits_for_quiet()


def test_a_worker_that_is_killed_is_told(watched: Watched) -> None:
    assert watched.worker
    watched.worker.process.kill_all()
    watched.prometheus.waits_for("OnbeatNoWorker", "OnbeatWorkerSilent", "OnbeatScrapeFails")
    assert watched.metric("onbeat_workers{state=alive}") == 0
    assert watched.metric("onbeat_workers{state=silent}") == 1
    assert not watched.health()[1]["checks"]["workers"]["ok"]
    watched.start_worker()
    watched.prometheus.waits_for_quiet()
    wait_until(watched.is_healthy, what="health says so as well")
