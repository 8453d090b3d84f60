"""The page on callbacks, followed as a reader would, with its receiver."""

import socket

from tests.acceptance.following import a_reader, follow, needs_curl
from tests.platform import ROOT, Platform
from tests.tiers import once_embedded
from tests.unit.doc_pages import page
from tests.waiting import wait_until

PAGE = "how-to/call-a-webhook.md"
RECEIVER = "examples/webhook_receiver/receiver.py"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@once_embedded
def test_the_page_can_be_followed_from_top_to_bottom(platform: Platform) -> None:
    needs_curl()
    receiver, web = _free_port(), _free_port()
    address = f"http://127.0.0.1:{web}"
    platform.environment |= {
        "ONBEAT_CALLBACKS_NETWORKS": "127.0.0.0/8",
        "ONBEAT_CALLBACKS_PORTS": f"80,443,{receiver}",
        "ONBEAT_CALLBACKS_URL": address,
    }
    platform.migrate()
    platform.beat()
    platform.worker()
    platform.web(port=web)
    wait_until(lambda: platform.count("SELECT count(*) FROM onbeat_worker"), what="the worker has signed on")
    text = page(PAGE)
    # What a reader puts in: the address of their web process, and the secrets that commands have printed.
    for said, meant in {
        "http://127.0.0.1:8000": address,
        "KEY=onbeat_…": "KEY=$(tail -n 1 0.out)",
        "WEBHOOK_KEY=whsec_…": "WEBHOOK_KEY=$(tail -n 1 2.out)",
    }.items():
        assert text.count(said) == 1
        text = text.replace(said, meant)
    follow(text.replace("9000", str(receiver)), a_reader(platform), platform.environment)


def test_the_receiver_of_the_page_is_the_example() -> None:
    _, code = (ROOT / RECEIVER).read_text(encoding="utf-8").split('"""\n\n')
    assert f"```python\n{code}```\n" in page(PAGE)
