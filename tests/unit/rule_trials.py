"""Alert rules tried on made-up series: what promtool is asked, and how a healthy platform looks to Prometheus.

Invariant: a trial names every alert that fires at a moment. So each of them is also one in which all others keep quiet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

INTERVAL_SECONDS = 15
_MINUTE = 60 // INTERVAL_SECONDS
_MINUTES = 120

FAILED = 'onbeat_attempts_total{job="onbeat-workers",instance="worker:9102",outcome="FAILED"}'
SUCCEEDED = 'onbeat_attempts_total{job="onbeat-workers",instance="worker:9102",outcome="SUCCEEDED"}'
WEB = 'job="onbeat-web",instance="web:8000"'
BEAT = 'job="onbeat-beats",instance="beat-1:9101"'


def web(name: str, labels: str = "") -> str:
    """A series of the web process, which tells of the database."""
    return f"{name}{{{WEB}{',' if labels else ''}{labels}}}"


def beat(name: str, labels: str = "") -> str:
    return f"{name}{{{BEAT}{',' if labels else ''}{labels}}}"


def late(bound: str) -> str:
    return beat("onbeat_lateness_seconds_bucket", f'le="{bound}"')


# A value that stays, or one that grows by so much with each scrape.
HEALTHY: dict[str, str] = {
    f"up{{{WEB}}}": "1",
    f"up{{{BEAT}}}": "1",
    'up{job="onbeat-workers",instance="worker:9102"}': "1",
    web("onbeat_database_up"): "1",
    web("onbeat_sample_age_seconds"): "6",
    web("onbeat_beats", 'state="ticking"'): "2",
    web("onbeat_beats", 'state="silent"'): "0",
    web("onbeat_beats", 'state="refusing"'): "0",
    web("onbeat_beats_without_redis"): "0",
    web("onbeat_beats_without_broker"): "0",
    web("onbeat_beats_clock_offset_seconds"): "0.004",
    web("onbeat_workers", 'state="alive"'): "3",
    web("onbeat_workers", 'state="silent"'): "0",
    web("onbeat_overdue_seconds"): "0",
    web("onbeat_queue_waiting", 'queue="default"'): "7",
    web("onbeat_queue_running", 'queue="default"'): "2",
    web("onbeat_queue_oldest_seconds", 'queue="default"'): "3",
    web("onbeat_dead_letters_waiting"): "0",
    web("onbeat_ledger_missing_fires"): "0",
    web("onbeat_ledger_age_seconds"): "70",
    beat("onbeat_beat_clock_offset_seconds"): "-0.004",
    beat("onbeat_beat_redis_degraded"): "0",
    beat("onbeat_beat_broker_away"): "0",
    beat("onbeat_dead_letters_total"): "0",
    late("0.1"): "0+90",
    late("2.5"): "0+100",
    late("10"): "0+100",
    late("+Inf"): "0+100",
    SUCCEEDED: "0+40",
    FAILED: "0+1",
}


@dataclass(frozen=True)
class Trial:
    """What differs from a healthy platform, by phases of (minutes, value), and what fires at which minute."""

    says: str
    differs: Mapping[str, list[tuple[float, str]]] = field(default_factory=dict)
    fires: Mapping[float, set[str]] = field(default_factory=dict)

    def as_test(self) -> dict[str, object]:
        """As promtool wants it."""
        phases = {series: [(_MINUTES, value)] for series, value in HEALTHY.items()} | dict(self.differs)
        return {
            "name": self.says,
            "interval": f"{INTERVAL_SECONDS}s",
            "input_series": [{"series": series, "values": _values(parts)} for series, parts in phases.items() if parts],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0',
                    "eval_time": f"{round(minute * 60)}s",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)],
                }
                for minute, names in self.fires.items()
            ],
        }


def _values(phases: list[tuple[float, str]]) -> str:
    """In promtool's notation. `-` is a series that is gone, which Prometheus notes at the first scrape without it."""
    written = []
    for minutes, value in phases:
        count = round(minutes * _MINUTE)
        if value == "-":
            written.append("stale" if count == 1 else f"stale _x{count - 1}")
        else:
            step = value if "+" in value or "-" in value[1:] else f"{value}+0"
            written.append(f"{step}x{count - 1}")
    return " ".join([*written, "stale"])


def write(trials: list[Trial], rules: Path, into: Path) -> Path:
    file = into / "trials.yml"
    said = {
        "rule_files": [str(rules)],
        "evaluation_interval": f"{INTERVAL_SECONDS}s",
        "tests": [trial.as_test() for trial in trials],
    }
    file.write_text(yaml.safe_dump(said, sort_keys=False, width=10_000), encoding="utf-8")
    return file
