"""The page on the REST API, followed as a reader would."""

import re
from pathlib import Path

import pytest

from api import schema
from tests.acceptance.following import PROBLEM, a_reader, follow, needs_curl
from tests.platform import Platform
from tests.tiers import once_embedded
from tests.unit.doc_pages import page, section, tables
from tests.waiting import wait_until

PAGE = "how-to/use-the-api.md"
# What a reader puts in: the address of their web process, and the secret that the first command has printed.
ADDRESS, SECRET = "http://127.0.0.1:8000", "KEY=onbeat_…"


@once_embedded
def test_the_page_can_be_followed_from_top_to_bottom(platform: Platform) -> None:
    needs_curl()
    platform.migrate()
    platform.beat()
    platform.worker()
    address = platform.web()
    wait_until(lambda: platform.count("SELECT count(*) FROM onbeat_worker"), what="the worker has signed on")
    text = page(PAGE)
    assert (text.count(ADDRESS), text.count(SECRET)) == (1, 1)
    text = text.replace(ADDRESS, address).replace(SECRET, "KEY=$(tail -n 1 0.out)")
    follow(text, a_reader(platform), platform.environment)


def test_the_statuses_of_the_page_are_those_of_the_schema() -> None:
    rows = tables(section(page(PAGE), "When it says no"))[0]
    assert [int(row[0]) for row in rows] == sorted({*schema._WHEN, 405, 500})


def test_a_page_that_is_right_can_be_followed(tmp_path: Path) -> None:
    follow(
        '```sh\nname=anna\n```\n\n```sh\necho hello, $name: \'1,"2"\'\n```\n\n```text\nhe…: 1,\n"2"\n```\n', tmp_path
    )


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```sh\nfalse\n```\n", "ends with 1"),
        ("```sh\necho $nmae\n```\n", "nmae: unbound variable"),
        ("```sh\nfalse | cat\n```\n\n```sh\ntrue\n```\n", "ends with 1"),
        ("```sh\necho 1\n```\n\n```text\n2\n```\n", "the page says"),
        ("```sh\necho 1; echo 2\n```\n\n```text\n1\n```\n", "the page says"),
        (f"```sh\necho '{{{PROBLEM}}}'\n```\n\n```text\n…\n```\n", "about:blank"),
        ("```text\n1\n```\n\n```sh\necho 1\n```\n", "an answer stands below no command"),
    ],
)
def test_a_page_that_is_wrong_is_told(block: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(why)):
        follow(block, tmp_path)
