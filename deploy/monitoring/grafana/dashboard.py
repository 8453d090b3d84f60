"""Makes the Grafana dashboard: `.venv/bin/python -m deploy.monitoring.grafana.dashboard` writes dashboards/onbeat.json.

Owns what is shown and how it is told; a test compares the file with what this makes. Invariant: the first row answers
"is everything all right?" alone, green for yes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from deploy.monitoring.grafana.panels import (
    BY_INSTANCE,
    GREEN,
    RED,
    SOURCE,
    YELLOW,
    Json,
    Panel,
    quantile,
    quantiles,
    rate,
    stat,
    told,
)

FILE = Path(__file__).parent / "dashboards" / "onbeat.json"
_COLUMNS = 24
_FAILED = '{outcome=~"FAILED|TIMED_OUT|WORKER_LOST"}'
_ENDED = '{outcome!="CANCELLED"}'
ROWS: dict[str, list[Panel]] = {
    "Is everything all right?": [
        stat(
            "Alerts",
            'count(ALERTS{alertname=~"Onbeat.+", alertstate="firing"}) or vector(0)',
            "How many alerts of Onbeat fire now. The page docs/reference/alerts.md tells what to do about each.",
            (None, GREEN),
            (1, RED),
        ),
        stat(
            "Fires missing",
            "max(abs(onbeat_ledger_missing_fires))",
            "The invariant: fires that were due in windows that are over, minus those that are recorded. It must "
            "be 0. Anything else is the worst that this page can show.",
            (None, GREEN),
            (1, RED),
        ),
        stat(
            "Beats that tick",
            told("onbeat_beats", labels='{state="ticking"}'),
            "One is enough to fire everything; with two, one may die unnoticed.",
            (None, RED),
            (1, GREEN),
        ),
        stat(
            "Workers alive",
            told("onbeat_workers", labels='{state="alive"}'),
            "Without one nothing runs. Whether each queue has one is told below, by what waits in it.",
            (None, RED),
            (1, GREEN),
        ),
        stat(
            "Lateness p99",
            quantile(0.99, "onbeat_lateness_seconds", window="5m"),
            "99 of 100 messages of the last five minutes were confirmed by the broker this soon after they were "
            "due. Not known if nothing was published.",
            (None, GREEN),
            (1, YELLOW),
            (5, RED),
            unit="s",
        ),
        stat(
            "Overdue",
            told("onbeat_overdue_seconds"),
            "How long ago a fire passed that has no row yet. A second is nothing; beats look each second.",
            (None, GREEN),
            (5, YELLOW),
            (30, RED),
            unit="s",
        ),
        stat(
            "Longest wait",
            f"{told('onbeat_queue_oldest_seconds')} or 0 * {told('onbeat_sample_age_seconds')}",
            "How long the oldest execution of all queues has waited for a worker. 0: nothing waits.",
            (None, GREEN),
            (60, YELLOW),
            (300, RED),
            unit="s",
        ),
        stat(
            "Dead letters",
            told("onbeat_dead_letters_waiting"),
            "They wait for a person to replay or discard them. Some may be normal; more than yesterday is not.",
            (None, GREEN),
            (1, YELLOW),
        ),
    ],
    "Fires": [
        Panel(
            "Planned and skipped",
            "Fires that got their row, per second; and those that did not run, by why. Piles at full hours and at "
            "midnight are usual: jitter spreads them.",
            {
                "planned": rate("onbeat_fires_planned_total"),
                "skipped: {{reason}}": rate("onbeat_fires_skipped_total", "reason"),
            },
            "ops",
        ),
        Panel(
            "Published",
            "Messages that the broker confirmed, per second: first attempts of fires, of runs that were asked for, "
            "and retries. Nothing at all while fires are planned: the broker is away.",
            {"{{what}}": rate("onbeat_published_total", "what")},
            "ops",
            is_stacked=True,
        ),
        Panel(
            "Lateness",
            "From when a message was due to when the broker had confirmed it. What is not confirmed yet is not in "
            "it: an outage shows as a gap, and then as a peak.",
            quantiles("onbeat_lateness_seconds"),
            "s",
            steps=((None, GREEN), (5, RED)),
        ),
        Panel(
            "Publish and confirm",
            "How long a beat takes to send a batch, and the broker to confirm it. If only confirms take long, the "
            "broker is slow.",
            quantiles("onbeat_publish_seconds", "publish") | quantiles("onbeat_confirm_seconds", "confirm"),
            "s",
        ),
    ],
    "Beats": [
        Panel(
            "Tick p99",
            "How long a round of a beat takes. It may take longer than a second when much fires at once; if it "
            "always does, fires get late: give beats or database a faster machine, or start another beat.",
            {"{{instance}}": quantile(0.99, "onbeat_tick_seconds", "instance")},
            "s",
        ),
        Panel(
            "Leases",
            "Fires that a beat took for itself, and those that another had. Lost ones cost a little work and "
            "nothing else; many of them: shards are shared badly, or have just moved.",
            {"{{result}}": rate("onbeat_leases_total", "result")},
            "ops",
        ),
        Panel(
            "Due and overdue",
            "Schedules whose fire is due and those that nobody has planned in time. Due ones come and go.",
            {"{{state}}": told("onbeat_schedules", "state", '{state=~"due|overdue"}')},
        ),
        Panel(
            "Shards",
            "How many of the 64 parts of the schedules each beat looks after. Together 64, but for seconds after "
            "a beat came or went.",
            {"{{instance}}": f"sum by (instance) (onbeat_beat_shards{BY_INSTANCE})"},
            "none",
            is_stacked=True,
        ),
    ],
    "Executions": [
        Panel(
            "Ended",
            "Executions that are over, per second, by how.",
            {"{{state}}": rate("onbeat_executions_total", "state")},
            "ops",
            is_stacked=True,
        ),
        Panel(
            "Attempts",
            "Attempts that ended, per second, by how. One execution may take several.",
            {"{{outcome}}": rate("onbeat_attempts_total", "outcome")},
            "ops",
            is_stacked=True,
        ),
        Panel(
            "Error rate",
            "The share of attempts that failed, took too long or lost their worker. Cancelled ones do not count. "
            "With few attempts it jumps.",
            {
                "failed": f"{rate('onbeat_attempts_total', labels=_FAILED)}"
                f" / {rate('onbeat_attempts_total', labels=_ENDED)}"
            },
            "percentunit",
            steps=((None, GREEN), (0.1, RED)),
        ),
        Panel(
            "Duration of attempts",
            "How long handlers run, whatever came of it. All jobs together: one that became slow is found in the "
            "admin.",
            quantiles("onbeat_attempt_seconds"),
            "s",
        ),
        Panel(
            "Retries and dead letters",
            "Attempts after which another one follows, and executions that were given up, per second.",
            {"retries": rate("onbeat_retries_total"), "given up": rate("onbeat_dead_letters_total")},
            "ops",
        ),
        Panel(
            "Running",
            "Attempts that each worker runs now. Flat at its number of processes: it is full.",
            {"{{instance}}": f"sum by (instance) (onbeat_worker_running{BY_INSTANCE})"},
            "none",
            is_stacked=True,
        ),
    ],
    "Queues": [
        Panel(
            "Waiting",
            "What is due or queued, and no worker has taken. A sawtooth is fine; a slope is not. A queue is shown "
            "while something of it waits or runs.",
            {"{{queue}}": told("onbeat_queue_waiting", "queue")},
        ),
        Panel(
            "Oldest",
            "How long the oldest has waited. It rises second by second in a queue that nobody takes from.",
            {"{{queue}}": told("onbeat_queue_oldest_seconds", "queue")},
            "s",
            steps=((None, GREEN), (300, RED)),
        ),
        Panel(
            "Running, by queue",
            "None of a queue in which something waits: no worker takes from it.",
            {"{{queue}}": told("onbeat_queue_running", "queue")},
            is_stacked=True,
        ),
    ],
    "Processes": [
        Panel(
            "Beats",
            "Ticking, silent (went without signing off, or hangs), refusing (its clock is wrong). A silent one is "
            "forgotten after an hour.",
            {"{{state}}": told("onbeat_beats", "state")},
            "none",
        ),
        Panel(
            "Workers",
            "Alive, and silent: went without signing off, or hangs.",
            {"{{state}}": told("onbeat_workers", "state")},
            "none",
        ),
        Panel(
            "Signs of life",
            "How long ago the freshest tick and the oldest heartbeat of a worker were, as the database has it; and "
            "the same as each process says.",
            {
                "freshest tick": told("onbeat_beats_tick_age_seconds"),
                "oldest heartbeat": told("onbeat_workers_heartbeat_age_seconds"),
                "tick of {{instance}}": told("onbeat_beat_tick_age_seconds", "instance", BY_INSTANCE),
                "heartbeat of {{instance}}": told("onbeat_worker_heartbeat_age_seconds", "instance", BY_INSTANCE),
            },
            "s",
            steps=((None, GREEN), (20, RED)),
        ),
        Panel(
            "Clock offset",
            "How far the clock of each beat's machine is ahead of the database's, and the largest of all. Beyond "
            "30 s a beat refuses to fire.",
            {
                "{{instance}}": told("onbeat_beat_clock_offset_seconds", "instance", BY_INSTANCE),
                "largest": told("onbeat_beats_clock_offset_seconds"),
            },
            "s",
            least=None,
        ),
        Panel(
            "Cut off",
            "Beats that cannot reach Redis (they work without leases) or the broker (they cannot publish), as the "
            "database has it and as they say themselves.",
            {
                "without Redis": told("onbeat_beats_without_redis"),
                "without the broker": told("onbeat_beats_without_broker"),
                "{{instance}} without Redis": told("onbeat_beat_redis_degraded", "instance", BY_INSTANCE),
                "{{instance}} without the broker": told("onbeat_beat_broker_away", "instance", BY_INSTANCE),
            },
            "none",
        ),
        Panel(
            "Scraped",
            "1: it answers, or its database does. A worker that was taken away goes from here; so does one that was "
            "killed if it was found by its name, and is silent in the panel of the workers.",
            {
                "{{instance}}": 'max by (instance) (up{job=~"onbeat-.+"})',
                "{{instance}}: database": told("onbeat_database_up", "instance", BY_INSTANCE),
            },
            "none",
        ),
    ],
    "The promise, and what is said about it": [
        Panel(
            "Expected and recorded fires",
            "Per second, counted by a walk of its own over windows that are over. The lines lie on each other.",
            {
                "expected": "max(rate(onbeat_ledger_expected_fires_total[$__rate_interval]))",
                "recorded": "max(rate(onbeat_ledger_recorded_fires_total[$__rate_interval]))",
            },
            "ops",
        ),
        Panel(
            "Age of what is known",
            "How far behind now that walk is, and how old the figures of queues and schedules are. If these grow, "
            "the other panels show old figures.",
            {
                "walk over fires": told("onbeat_ledger_age_seconds"),
                "sample of queues": told("onbeat_sample_age_seconds"),
            },
            "s",
        ),
        Panel(
            "Warnings in the logs",
            "The ten that come most, per second, in the words of the log.",
            {"{{event}}": f"topk(10, {rate('onbeat_warnings_total', 'event')})"},
            "ops",
        ),
        Panel(
            "Active schedules, and releases",
            "How many schedules there are, and how many processes run each release. Two releases side by side are "
            "fine while one replaces the other.",
            {
                "active schedules": told("onbeat_schedules", labels='{state="active"}'),
                "release {{version}}": "count by (version) (onbeat_build_info)",
            },
            "none",
        ),
    ],
}
_VARIABLES = [
    {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1},
    {
        "name": "instance",
        "label": "Process",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": "label_values(onbeat_build_info, instance)", "refId": "instances"},
        "definition": "label_values(onbeat_build_info, instance)",
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    },
]


def _placed() -> Iterator[Json]:
    """Rows below each other, the panels of each side by side: all stats in one line, else up to four."""
    number = y = 0
    for title, panels in ROWS.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1},
            "panels": [],
        }
        y += 1
        across = len(panels) if panels[0].is_stat else 3 if len(panels) % 3 == 0 else 4
        for place, panel in enumerate(panels):
            number += 1
            line, column = divmod(place, across)
            width = _COLUMNS // across
            yield panel.as_json(number, column * width, y + line * panel.height, width)
        y += -(-len(panels) // across) * panels[0].height


def dashboard() -> Json:
    return {
        "uid": "onbeat",
        "title": "Onbeat",
        "description": "Is everything all right, and if not, where to look. Alerts: docs/reference/alerts.md.",
        "tags": ["onbeat"],
        "schemaVersion": 39,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "graphTooltip": 1,  # the same moment is marked in all panels
        "templating": {"list": _VARIABLES},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_placed()),
    }


def as_text() -> str:
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(as_text(), encoding="utf-8")
