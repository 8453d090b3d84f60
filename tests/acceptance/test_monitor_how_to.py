"""The page on monitoring, followed as a reader would, on a platform of beat, worker and web."""

import os
import sys
from urllib.parse import urlsplit

import pytest

from tests import scraping
from tests.acceptance.following import a_reader, follow, needs_curl
from tests.platform import ROOT, Platform
from tests.prometheus import programs
from tests.scraping import ADDRESS
from tests.tiers import once_embedded
from tests.unit.doc_pages import page
from tests.waiting import wait_until

pytestmark = pytest.mark.prometheus


@once_embedded
def test_the_page_can_be_followed_from_top_to_bottom(platform: Platform) -> None:
    needs_curl()
    promtool = programs().promtool
    platform.environment |= {"ONBEAT_BEAT_METRICS_ADDRESS": ADDRESS, "ONBEAT_WORKERS_METRICS_ADDRESS": ADDRESS}
    platform.migrate()
    beat = platform.beat()
    platform.worker()
    web = platform.web()
    wait_until(
        lambda: (
            "onbeat_dead_letters_waiting" in (seen := scraping.page(f"{web}/metrics"))
            and seen["onbeat_workers{state=alive}"] == 1
        ),
        what="the worker has signed on, and a beat has counted",
    )
    text = page("how-to/monitor.md")
    for said, meant in {
        "http://127.0.0.1:8000": web,
        "http://127.0.0.1:9101/metrics": scraping.address(beat),
    }.items():
        assert said in text
        text = text.replace(said, meant)
    reader = a_reader(platform)
    (reader / "deploy").symlink_to(ROOT / "deploy")
    # The launcher's own command; the others are Django's.
    onbeat = reader / "onbeat"
    onbeat.write_text(f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m launcher "$@"\n')
    path = f"{promtool.parent}:{os.environ['PATH']}"
    follow(text, reader, {**platform.environment, "PATH": path, "PORT": str(urlsplit(web).port)})
