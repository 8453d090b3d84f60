"""Prometheus for tests: its programs, or a word about why there are none; and a real one that scrapes real processes.

The rules that it loads are those of deploy/monitoring, quickened: tests cannot wait for a quarter of an hour.
"""

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from launcher import prometheus
from launcher.ports import HOST, free_port
from launcher.prometheus import Programs
from tests.waiting import wait_until

RULES = Path(__file__).resolve().parents[1] / "deploy" / "monitoring" / "alerts.yml"
TIMES = 30  # a quarter of an hour is half a minute
_LEAST_WINDOW = 4  # of a few scrapes
_LEAST_FOR = 8  # Prometheus takes 5 s until it has found its targets, and looks at its rules before
_MOST_FOR = 30
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_WINDOW = re.compile(r"(?P<before>\[|offset )(?P<number>\d+)(?P<unit>[smh])")
_ANSWER_SECONDS = 10


def programs() -> Programs:
    """Without them a test is skipped; with CI=true it fails, since green must mean all of them."""
    found = prometheus.find()
    if found is None:
        say = pytest.fail if os.environ.get("CI", "").lower() in ("true", "1") else pytest.skip
        say(f"{prometheus.MISSING} {prometheus.HOW_TO_GET_IT}")
    return found


def promtool(*words: str) -> tuple[bool, str]:
    """Whether it was content, and what it said."""
    command = [str(programs().promtool), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def quickened(rules: str, times: int = TIMES) -> str:
    """The same rules in so many times less time: what is in `for`, in windows and in offsets is shorter. What is
    compared stays: a fire that is 30 s overdue is 30 s overdue.
    """
    said: dict[str, Any] = yaml.safe_load(rules)
    for group in said["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule["for"] = _shorter(rule["for"][:-1], rule["for"][-1], times, at_least=_LEAST_FOR, at_most=_MOST_FOR)
            rule["expr"] = _WINDOW.sub(
                lambda found: found["before"] + _shorter(found[2], found[3], times, at_least=_LEAST_WINDOW),
                rule["expr"],
            )
    return str(yaml.safe_dump(said, sort_keys=False, width=10_000))


def _shorter(number: str, unit: str, times: int, *, at_least: int, at_most: int = 3600) -> str:
    return f"{min(at_most, max(at_least, round(int(number) * _SECONDS[unit] / times)))}s"


class Prometheus:
    """One that runs, scrapes each second and looks at its rules each second."""

    def __init__(self, port: int) -> None:
        self._address = f"http://{HOST}:{port}"

    def query(self, expression: str) -> dict[str, float]:
        """The values of a vector, by their labels as text."""
        return {_labels(found["metric"]): float(found["value"][1]) for found in self._ask("query", query=expression)}

    def value(self, expression: str) -> float | None:
        """The only one, or none."""
        (found,) = [*self.query(expression).values()] or [None]
        return found

    def firing(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self._get("alerts")["alerts"] if alert["state"] == "firing"}

    def ever_fired(self) -> set[str]:
        found = self.query('count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))')
        return {labels.removeprefix("alertname=") for labels in found}

    def rules(self) -> dict[str, str]:
        """How each alert rule is: `ok`, or what is wrong with it."""
        return {
            rule["name"]: rule.get("lastError") or rule["health"]
            for group in self._get("rules")["groups"]
            for rule in group["rules"]
        }

    def waits_for(self, *alerts: str, seconds: float = 90) -> set[str]:
        """Until all of these fire; all that do."""
        return wait_until(
            lambda: (firing := self.firing()) >= set(alerts) and firing,
            what=f"{', '.join(alerts)}; {self.firing()} fire",
            seconds=seconds,
        )

    def waits_for_quiet(self, *, seconds: float = 90) -> None:
        wait_until(lambda: not self.firing(), what="no alert fires", seconds=seconds)

    def scrapes(self, count: int, *, of: str) -> None:
        """Until a process was scraped so many times with success."""
        asked = f"sum(sum_over_time(up{{{of}}}[1h])) or vector(0)"
        wait_until(lambda: (self.value(asked) or 0) >= count, what=f"{count} scrapes of {of}", seconds=2 * count + 30)

    def _ask(self, what: str, **parameters: str) -> Any:
        return self._get(f"{what}?{urlencode(parameters)}")["result"]

    def _get(self, what: str) -> Any:
        with urlopen(f"{self._address}/api/v1/{what}", timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)["data"]

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError), urlopen(f"{self._address}/-/ready", timeout=_ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
        return False


def _labels(metric: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(metric.items()))


@contextlib.contextmanager
def a_prometheus(folder: Path, jobs: Mapping[str, Sequence[str]], *, token: str = "") -> Iterator[Prometheus]:
    """It scrapes the addresses of each job, and is gone afterwards. Its log is shown if the test fails."""
    program = programs().prometheus
    folder.mkdir()
    (folder / "alerts.yml").write_text(quickened(RULES.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(_configuration(jobs, token)), encoding="utf-8")
    port = free_port(set())
    command = [str(program), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command += [f"--web.listen-address={HOST}:{port}", "--log.level=warn"]
    log = folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        started = Prometheus(port)
        wait_until(lambda: started.is_ready() or process.poll() is not None, what="Prometheus is ready")
        assert process.poll() is None, log.read_text()
        yield started
    except BaseException:
        print(f"--- Prometheus ---\n{log.read_text()[-4000:]}")  # noqa: T201 - pytest shows it on failure
        raise
    finally:
        process.kill()
        process.wait()


def _configuration(jobs: Mapping[str, Sequence[str]], token: str) -> dict[str, Any]:
    access = {"authorization": {"credentials": token}} if token else {}
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [*targets]}], **_patience(job), **access}
            for job, targets in jobs.items()
        ],
    }


def _patience(job: str) -> dict[str, str]:
    """Web waits a second for the database before it says that this is away."""
    return {"scrape_interval": "2s", "scrape_timeout": "2s"} if job == "onbeat-web" else {}
