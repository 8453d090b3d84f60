"""The page on jobs as code is followed as it stands: its files are written, its commands are typed."""

import re
import shlex
from io import StringIO
from pathlib import Path

import pytest
from celery import current_app
from django.core.management import call_command

from jobs import declared, targets
from tests.tiers import once_embedded
from tests.unit.doc_pages import DOCS

PAGE = DOCS / "how-to" / "keep-jobs-as-code.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.django_db, once_embedded]


def test_following_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(declared, "_declared", [])
    before = targets.known_tasks()
    names: dict[str, object] = {"__name__": "mail.tasks"}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 15
    try:
        for place, (kind, text) in enumerate(blocks):
            if kind == "yaml":
                follow_file(text, is_first=place < 5)
            elif kind == "python":
                exec(compile(text, str(PAGE), "exec"), names)
            elif kind == "sh":
                assert blocks[place + 1][0] == "text", f"{text} stands alone, without what it prints"
                follow(text.strip(), expected=blocks[place + 1][1])
    finally:
        for name in targets.known_tasks() - before:
            current_app.tasks.pop(name)


def follow_file(text: str, *, is_first: bool) -> None:
    """The first one is what was exported; those after it are typed."""
    head, body = text.split("\n", 1)
    path = Path(head.removeprefix("# "))
    if is_first:
        assert path.read_text(encoding="utf-8") == body
    else:
        path.write_text(body, encoding="utf-8")


def follow(command: str, *, expected: str) -> None:
    line, _, into = command.removeprefix("./onbeat ").partition(" > ")
    output = StringIO()
    call_command(*shlex.split(line), stdout=output)
    if into:
        Path(into).write_text(output.getvalue(), encoding="utf-8")
    said = "" if into else output.getvalue()
    assert re.fullmatch(re.escape(expected).replace("…", ".*"), said, re.DOTALL), f"{command} prints:\n{said}"
