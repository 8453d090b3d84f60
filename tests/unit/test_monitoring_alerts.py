"""Each alert rule fires when it should and keeps quiet when it should, by Prometheus's own promtool."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus import promtool, quickened
from tests.unit.rule_trials import FAILED, HEALTHY, SUCCEEDED, WEB, Trial, beat, late, web, write

pytestmark = pytest.mark.prometheus

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
RULES = MONITORING / "alerts.yml"

TICKING, SILENT = web("onbeat_beats", 'state="ticking"'), web("onbeat_beats", 'state="silent"')
REFUSING = web("onbeat_beats", 'state="refusing"')
ALIVE, WORKERS_SILENT = web("onbeat_workers", 'state="alive"'), web("onbeat_workers", 'state="silent"')
WAITING, RUNNING = web("onbeat_queue_waiting", 'queue="default"'), web("onbeat_queue_running", 'queue="default"')
OLDEST = web("onbeat_queue_oldest_seconds", 'queue="default"')
MAIL, MAIL_RUNNING = web("onbeat_queue_waiting", 'queue="mail"'), web("onbeat_queue_running", 'queue="mail"')
DEAD, UP, DATABASE = web("onbeat_dead_letters_waiting"), f"up{{{WEB}}}", web("onbeat_database_up")
GIVEN_UP = beat("onbeat_dead_letters_total")
OF_THE_WEB = [series for series in HEALTHY if series.startswith("onbeat_") and WEB in series]
NOTHING_OF_THE_WEB: dict[str, list[tuple[float, str]]] = {series: [] for series in OF_THE_WEB}
NOTHING_BUT_UP = {series: [] for series in OF_THE_WEB if series != DATABASE}

QUIET: set[str] = set()
TRIALS = [
    Trial("a healthy platform", {}, {0.25: QUIET, 10: QUIET, 60: QUIET, 110: QUIET}),
    # ── Whether anything is seen ─────────────────────────────────────────────────────────────────────────────────
    Trial(
        "web goes away",
        {UP: [(5, "1"), (60, "0")]} | {series: [(5, HEALTHY[series]), (1, "-")] for series in OF_THE_WEB},
        {6.5: QUIET, 8: {"OnbeatWebGone"}, 30: {"OnbeatWebGone", "OnbeatScrapeFails"}},
    ),
    Trial("web was never there", {UP: [], **NOTHING_OF_THE_WEB}, {1: QUIET, 3: {"OnbeatWebGone"}}),
    Trial("web restarts", {UP: [(5, "1"), (1, "0"), (60, "1")]}, dict.fromkeys(range(5, 12), QUIET)),
    Trial(
        "another web process answers",
        {UP: [(5, "1"), (60, "0")], 'up{job="onbeat-web",instance="web-2:8000"}': [(120, "1")]},
        {8: QUIET, 12: {"OnbeatScrapeFails"}},
    ),
    Trial(
        "a beat is not scraped",
        {'up{job="onbeat-beats",instance="beat-1:9101"}': [(5, "1"), (60, "0")]},
        {9: QUIET, 11: {"OnbeatScrapeFails"}},
    ),
    Trial("somebody else's target is away", {'up{job="node"}': [(60, "0")]}, {30: QUIET}),
    Trial(
        "the database goes away, and with it all that web knows of it",
        {DATABASE: [(5, "1"), (60, "0")]} | {series: [(5, HEALTHY[series])] for series in NOTHING_BUT_UP},
        {5.5: QUIET, 7: {"OnbeatDatabaseAway"}, 30: {"OnbeatDatabaseAway"}},
    ),
    Trial(
        "the database answers and no more is known: nothing is there",
        NOTHING_BUT_UP,
        {
            0.5: QUIET,
            5: {"OnbeatNoBeat", "OnbeatNoWorker", "OnbeatSampleStale"},
            11: {"OnbeatNoBeat", "OnbeatNoWorker", "OnbeatSampleStale", "OnbeatInvariantNotChecked"},
        },
    ),
    Trial(
        "the sample gets old",
        {web("onbeat_sample_age_seconds"): [(5, "6"), (60, "0+15")]},
        {11: QUIET, 13: {"OnbeatSampleStale"}},
    ),
    # ── Beats ────────────────────────────────────────────────────────────────────────────────────────────────────
    Trial(
        "the only beat is killed",
        {TICKING: [(5, "1"), (60, "0")], SILENT: [(5, "0"), (60, "1")]},
        {5.5: QUIET, 6.5: {"OnbeatNoBeat"}, 10: {"OnbeatNoBeat", "OnbeatBeatSilent"}},
    ),
    Trial(
        "one of two beats is killed, and forgotten later",
        {TICKING: [(5, "2"), (100, "1")], SILENT: [(5, "0"), (50, "1"), (30, "0")]},
        {6: QUIET, 8: {"OnbeatBeatSilent"}, 54: {"OnbeatBeatSilent"}, 56: QUIET},
    ),
    Trial(
        "a beat is killed and another comes",
        {SILENT: [(5, "0"), (1.5, "1"), (60, "0")]},
        dict.fromkeys(range(5, 12), QUIET),
    ),
    Trial("a beat refuses", {REFUSING: [(5, "0"), (60, "1")]}, {6: QUIET, 8: {"OnbeatBeatRefuses"}}),
    Trial(
        "a clock is off, as the database tells",
        {web("onbeat_beats_clock_offset_seconds"): [(5, "0.9"), (60, "1.4")]},
        {9: QUIET, 11: {"OnbeatClockOff"}},
    ),
    Trial(
        "a clock is slow, as its beat tells",
        {beat("onbeat_beat_clock_offset_seconds"): [(5, "-0.9"), (60, "-1.4")]},
        {9: QUIET, 11: {"OnbeatClockOff"}},
    ),
    Trial(
        "a fire is overdue",
        {web("onbeat_overdue_seconds"): [(5, "0"), (60, "0+15")]},
        {6.5: QUIET, 9: {"OnbeatSchedulesOverdue"}},
    ),
    Trial(
        "fires get late for long",
        {late("2.5"): [(10, "0+100"), (100, "4000+90")]},
        {18: QUIET, 25: {"OnbeatFiresLate"}},
    ),
    Trial(
        "a burst is late once",
        {late("2.5"): [(10, "0+100"), (5, "4000+0"), (90, "4000+100")], late("0.1"): [(10, "0+90"), (100, "3600+0")]},
        dict.fromkeys((*range(10, 15), *range(30, 40)), QUIET),
    ),
    Trial("nothing is published", {late(bound): [(120, "5")] for bound in ("0.1", "2.5", "10", "+Inf")}, {30: QUIET}),
    Trial(
        "Redis is away, as the database tells",
        {web("onbeat_beats_without_redis"): [(5, "0"), (60, "1")]},
        {6: QUIET, 8: {"OnbeatRedisAway"}},
    ),
    Trial(
        "Redis is away, as a beat tells",
        {beat("onbeat_beat_redis_degraded"): [(5, "0"), (60, "1")], web("onbeat_beats_without_redis"): []},
        {6: QUIET, 8: {"OnbeatRedisAway"}},
    ),
    Trial(
        "the broker is away for all beats",
        {web("onbeat_beats_without_broker"): [(5, "0"), (10, "2"), (60, "0")]},
        {5.5: QUIET, 7: {"OnbeatBrokerAway"}, 14: {"OnbeatBrokerAway"}, 17: QUIET},
    ),
    Trial(
        "the broker is away, as the beats tell, and web is not scraped for it",
        {web("onbeat_beats_without_broker"): [], beat("onbeat_beat_broker_away"): [(5, "0"), (60, "1")]},
        {5.5: QUIET, 7: {"OnbeatBrokerAway"}},
    ),
    Trial(
        "one of two beats does not reach the broker",
        {
            web("onbeat_beats_without_broker"): [(5, "0"), (60, "1")],
            beat("onbeat_beat_broker_away"): [(5, "0"), (60, "1")],
            'onbeat_beat_broker_away{job="onbeat-beats",instance="beat-2:9101"}': [(120, "0")],
        },
        {9: QUIET, 11: {"OnbeatBeatCutOff"}},
    ),
    # ── The promise ──────────────────────────────────────────────────────────────────────────────────────────────
    Trial(
        "a fire is missing",
        {web("onbeat_ledger_missing_fires"): [(5, "0"), (60, "1")]},
        {5.5: QUIET, 7: {"OnbeatInvariantBroken"}},
    ),
    Trial(
        "there is a fire too many",
        {web("onbeat_ledger_missing_fires"): [(5, "0"), (60, "-1")]},
        {5.5: QUIET, 7: {"OnbeatInvariantBroken"}},
    ),
    Trial(
        "the walk stops",
        {web("onbeat_ledger_age_seconds"): [(5, "70"), (60, "70+60")]},
        {20: QUIET, 32: {"OnbeatInvariantNotChecked"}},
    ),
    # ── Work ─────────────────────────────────────────────────────────────────────────────────────────────────────
    Trial(
        "a third of the attempts fail",
        {FAILED: [(20, "0+1"), (60, "80+20")]},
        {26: QUIET, 30: {"OnbeatErrorRateUp"}, 60: {"OnbeatErrorRateUp"}},
    ),
    Trial("half fail of very few", {FAILED: [(10, "0"), (60, "3")], SUCCEEDED: [(10, "9"), (60, "12")]}, {12: QUIET}),
    Trial(
        "workers restart again and again, and few fail",
        {FAILED: [(5, "0+1")] * 20, SUCCEEDED: [(5, "0+40")] * 20},
        {30: QUIET, 60: QUIET},
    ),
    Trial(
        "a restart of a worker hides no failures",
        {FAILED: [(20, "0+1"), (20, "0+20"), (40, "3+20")]},
        {60: {"OnbeatErrorRateUp"}},
    ),
    Trial(
        "one execution is given up, by a worker that was born with this failure",
        {
            DEAD: [(5, "4"), (100, "5")],
            'onbeat_dead_letters_total{job="onbeat-workers",instance="worker-9:9102"}': [(5, "-"), (100, "1")],
        },
        {5.5: QUIET, 7: {"OnbeatRetriesExhausted"}, 19: {"OnbeatRetriesExhausted"}, 22: QUIET},
    ),
    Trial(
        "one is given up and settled at once",
        {GIVEN_UP: [(5, "3"), (100, "4")]},
        {5.5: QUIET, 7: {"OnbeatRetriesExhausted"}, 22: QUIET},
    ),
    Trial("old dead letters are discarded", {DEAD: [(5, "400"), (5, "200"), (90, "0")]}, {7: QUIET, 12: QUIET}),
    Trial("dead letters wait", {DEAD: [(120, "3")]}, {59: QUIET, 61: {"OnbeatDeadLettersWaiting"}}),
    # ── Queues ───────────────────────────────────────────────────────────────────────────────────────────────────
    Trial(
        "a queue grows",
        {WAITING: [(20, "7"), (90, "7+3")]},
        {25: QUIET, 50: {"OnbeatQueueGrows"}, 70: {"OnbeatQueueGrows"}},
    ),
    Trial("a queue shrinks", {WAITING: [(20, "4000"), (90, "4000-10")]}, dict.fromkeys(range(0, 110, 5), QUIET)),
    Trial(
        "a burst is worked off",
        {WAITING: [(20, "7"), (12, "3000-60"), (80, "7")]},
        dict.fromkeys(range(15, 60), QUIET),
    ),
    Trial(
        "a burst comes each quarter of an hour",
        {WAITING: [(3, "900-75"), (12, "0")] * 8},
        dict.fromkeys(range(0, 115, 5), QUIET),
    ),
    Trial("Prometheus is new, and a queue is long", {WAITING: [(120, "5000")]}, dict.fromkeys(range(60), QUIET)),
    Trial(
        "a queue that was not there grows",
        {MAIL: [(20, "-"), (90, "0+10")], MAIL_RUNNING: [(120, "1")]},
        {25: QUIET, 45: {"OnbeatQueueGrows"}},
    ),
    Trial("the oldest waits", {OLDEST: [(5, "3"), (60, "0+15")]}, {14: QUIET, 16: {"OnbeatQueueBehind"}}),
    Trial(
        "nobody takes from a queue of which nothing else is told",
        {MAIL: [(20, "-"), (90, "2")]},
        {29: QUIET, 31: {"OnbeatQueueUnattended"}},
    ),
    Trial(
        "nobody takes from a queue any more",
        {RUNNING: [(20, "2"), (90, "0")]},
        {34: QUIET, 36: {"OnbeatQueueUnattended"}},
    ),
    Trial(
        "a queue is told of only while something waits in it, which is seldom and short",
        {MAIL: [(0.25, "2"), (1, "-")] * 90},
        dict.fromkeys(range(0, 110, 5), QUIET),
    ),
    Trial(
        "a burst comes each quarter of an hour into a queue that is told of only then",
        {MAIL: [(3, "900-75"), (12, "-")] * 8, MAIL_RUNNING: [(3, "2"), (12, "-")] * 8},
        dict.fromkeys(range(0, 115, 5), QUIET),
    ),
    Trial(
        "a burst is worked off in a queue that is told of only then",
        {MAIL: [(20, "-"), (12, "3000-60"), (80, "-")], MAIL_RUNNING: [(20, "-"), (12, "2"), (80, "-")]},
        dict.fromkeys(range(15, 60), QUIET),
    ),
    Trial("nothing waits and nothing runs", {WAITING: [(120, "0")], RUNNING: [(120, "0")]}, {60: QUIET}),
    Trial(
        "what waits comes and goes, and what runs is seen seldom",
        {MAIL: [(1, "2"), (0.25, "0")] * 90},
        dict.fromkeys(range(0, 100, 5), QUIET),
    ),
    Trial(
        "the only worker is killed",
        {ALIVE: [(5, "1"), (60, "0")], WORKERS_SILENT: [(5, "0"), (60, "1")]},
        {6: QUIET, 8: {"OnbeatNoWorker"}, 11: {"OnbeatNoWorker", "OnbeatWorkerSilent"}},
    ),
    Trial(
        "workers restart, all at once",
        {ALIVE: [(5, "3"), (1.5, "0"), (60, "3")], WORKERS_SILENT: [(5, "0"), (2, "3"), (60, "0")]},
        dict.fromkeys(range(5, 15), QUIET),
    ),
]


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_promtool_reads_the_rules() -> None:
    is_good, said = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert is_good, said
    assert f"{len(alerts())} rules found" in said


def test_promtool_reads_the_configuration_of_prometheus(tmp_path: Path) -> None:
    """Beside its rules, and with a token where it looks for one."""
    token = tmp_path / "token"
    token.write_text("secret")
    (tmp_path / RULES.name).write_bytes(RULES.read_bytes())
    text = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/secrets/metrics_token", str(token)))
    is_good, said = promtool("check", "config", "--lint-fatal", str(tmp_path / "prometheus.yml"))
    assert is_good, said


def test_the_rules_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    is_good, said = promtool("test", "rules", str(write(TRIALS, RULES, tmp_path)))
    assert is_good, said


def test_each_alert_is_tried_to_fire() -> None:
    tried = {name for trial in TRIALS for names in trial.fires.values() for name in names}
    assert tried == set(alerts())


def test_no_two_trials_say_the_same() -> None:
    assert len({trial.says for trial in TRIALS}) == len(TRIALS)


def test_rules_that_are_quickened_for_tests_differ_in_their_times_alone() -> None:
    rules = """
    groups:
      - name: some
        rules:
          - alert: Slow
            expr: max by (queue) (avg_over_time(a[10m] offset 1h)) > 600 and rate(b[30s]) > 0
            for: 15m
          - alert: Gone
            expr: absent(c)
            for: 1m
          - alert: Waits
            expr: d > 0
            for: 1h
    """
    expected = "max by (queue) (avg_over_time(a[20s] offset 120s)) > 600 and rate(b[4s]) > 0"
    (group,) = yaml.safe_load(quickened(rules, 30))["groups"]
    assert group["interval"] == "1s"
    assert group["rules"] == [
        {"alert": "Slow", "expr": expected, "for": "30s"},
        {"alert": "Gone", "expr": "absent(c)", "for": "8s"},
        {"alert": "Waits", "expr": "d > 0", "for": "30s"},
    ]


def test_the_quickened_rules_are_read_as_well(tmp_path: Path) -> None:
    (tmp_path / RULES.name).write_text(quickened(RULES.read_text(encoding="utf-8")))
    is_good, said = promtool("check", "rules", str(tmp_path / RULES.name))
    assert is_good, said
