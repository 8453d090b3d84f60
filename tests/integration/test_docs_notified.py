"""The page on notifications is followed as it stands: its commands are typed, and print what it says."""

import re
import shlex
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from jobs.models import JobState
from notifications import receivers
from notifications.kinds import DEFAULT_LATE_AFTER_SECONDS, DEFAULT_MOST_PER_HOUR, EVENTS
from notifications.receivers import MOST_ATTEMPTS
from tests.integration.test_docs_examples import Expectations, with_expectations
from tests.notifying import ROUTING_KEY
from tests.tiers import once_embedded
from tests.unit.doc_pages import DOCS

PAGE = DOCS / "how-to" / "get-notified.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {
    "slack-url.txt": "https://hooks.slack.com/services/T000/B000/xyz",
    "key.txt": ROUTING_KEY,
    "url.txt": "https://status.example.com/hooks/onbeat",
}

pytestmark = [pytest.mark.django_db, once_embedded]


def test_following_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    blocks = [block for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if block[0] != "python"]
    commands = [(text, blocks[place + 1]) for place, (kind, text) in enumerate(blocks) if kind == "sh"]
    assert len(commands) == 5
    for command, (kind, expected) in commands:
        assert kind == "text"
        output = StringIO()
        call_command(*shlex.split(command)[1:], stdout=output)
        said = output.getvalue()
        pattern = re.escape(expected).replace("…", ".*")
        assert re.fullmatch(pattern, said, re.DOTALL), f"{command} prints:\n{said}"
    assert receivers.find("team").job.state == JobState.PAUSED
    assert receivers.find("status-page").late_after_seconds == 600


def test_its_python_does_what_it_says() -> None:
    expect = Expectations()
    (source,) = (text for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if kind == "python")
    exec(compile(with_expectations(source), str(PAGE), "exec"), {"_expect": expect})
    assert expect.met == 2


def test_the_page_says_what_the_code_does() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for event in EVENTS:
        assert f"| `{event}` | " in page
        assert f"`onbeat.{event}`" in page
    assert f"A receiver gets {DEFAULT_MOST_PER_HOUR} in an hour" in page
    assert f"({DEFAULT_LATE_AFTER_SECONDS // 60} minutes)" in page
    assert (MOST_ATTEMPTS, "tried eight times" in page) == (8, True)
