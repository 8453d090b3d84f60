"""Scrapes of real processes, as Prometheus does it."""

import re
from collections import Counter
from dataclasses import dataclass
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.platform import Process
from tests.waiting import wait_until

# A port for each process of a test that starts several: the first of these that is free. Away from those of `up`.
ADDRESS = "127.0.0.1:19101-19999"
_CAN_BE_READ = re.compile(r"metrics can be read  url=(http://\S+/metrics)")


def address(process: Process) -> str:
    """Where a beat or worker shows its metrics."""
    return wait_until(lambda: _CAN_BE_READ.search(process.output()), what=f"{process.name} shows its metrics")[1]


@dataclass(frozen=True)
class Page:
    """Samples by name and labels, in the order of their names: `onbeat_beats{state=ticking}`."""

    samples: dict[str, float]

    def __getitem__(self, name: str) -> float:
        return self.samples[name]

    def __contains__(self, name: str) -> bool:
        return name in self.samples


def page(*urls: str, token: str = "") -> Page:
    """What they show, added up."""
    found: Counter[str] = Counter()
    for url in urls:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with urlopen(Request(url, headers=headers), timeout=10) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] += sample.value
    return Page(dict(found))
