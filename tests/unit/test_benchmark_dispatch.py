"""How the benchmark of dispatch knows its peers, and how it hears what the broker confirms."""

import re
from itertools import pairwise
from pathlib import Path
from struct import pack

import pytest
from amqp.spec import Basic, Channel
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import dispatch, peers
from benchmarks.broker_limit import Confirms
from benchmarks.peers import Peer
from launcher.refusal import Refusal
from launcher.service_record import Addresses

ROOT = Path(__file__).resolve().parents[2]
HEARTBEAT = pack(">BHIB", 8, 0, 0, 0xCE)


def frame(method: tuple[int, int], arguments: bytes) -> bytes:
    payload = pack(">HH", *method) + arguments
    return pack(">BHI", 1, 1, len(payload)) + payload + b"\xce"


def ack(tag: int, *, multiple: bool = False) -> bytes:
    return frame(Basic.Ack, pack(">QB", tag, multiple))


@pytest.mark.parametrize("peer", peers.ALL, ids=lambda peer: peer.key)
def test_a_peer_is_called_by_its_pinned_version(peer: Peer) -> None:
    pins = (ROOT / "requirements.txt").read_text() + (ROOT / "requirements-dev.txt").read_text()
    pinned = re.search(rf"^{peer.package}==(.+)$", pins, re.MULTILINE)
    assert pinned
    assert peer.name == f"{peer.package} {pinned[1]}"


def test_a_peer_that_is_not_installed_says_what_brings_it() -> None:
    absent = Peer("absent", "no-such-beat", 1, "no.project", "no.Scheduler")
    with pytest.raises(Refusal, match=r"no-such-beat is not installed: `\.venv/bin/pip install"):
        _ = absent.name


def test_redbeat_without_redis_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "named_services", lambda: Addresses("postgresql://", "", "amqp://"))
    with pytest.raises(Refusal, match=r"celery-redbeat needs Redis: .* leave it out with --redbeat-fires 0"):
        dispatch.measure(1, {peers.REDBEAT: 1})


@given(order=st.permutations([1, 2, 3, 5, 7]), cuts=st.sets(st.integers(0, 150)))
def test_confirms_are_heard_in_any_order_and_in_any_pieces(order: list[int], cuts: set[int]) -> None:
    """Four, six and eight are confirmed by those that stand for all before them."""
    said = b"".join(ack(tag) for tag in order) + HEARTBEAT + ack(6, multiple=True) + ack(8, multiple=True)
    bounds = [0, *sorted(cuts), len(said)]
    confirms = Confirms(8)
    for start, end in pairwise(bounds):
        confirms.hear(said[start:end])
    assert confirms.confirmed == 8


def test_a_high_tag_confirms_nothing_but_itself() -> None:
    confirms = Confirms(8)
    confirms.hear(ack(8) + ack(8))
    assert confirms.confirmed == 1


def test_one_that_stands_for_all_before_counts_none_of_them_twice() -> None:
    confirms = Confirms(8)
    confirms.hear(ack(2) + ack(5, multiple=True) + ack(4))
    assert confirms.confirmed == 5
    confirms.hear(ack(8, multiple=True) + ack(3, multiple=True))
    assert confirms.confirmed == 8


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (frame(Basic.Nack, pack(">QB", 1, 0)), "refused one"),
        (frame(Basic.Return, pack(">H", 312)), "found no queue for one"),
        (frame(Channel.Close, pack(">H", 404)), r"said something else \(frame of kind 1, method \(20, 40\)\)"),
    ],
    ids=["nack", "return", "close"],
)
def test_what_is_no_confirm_leaves_no_figure(said: bytes, why: str) -> None:
    confirms = Confirms(2)
    with pytest.raises(Refusal, match=rf"RabbitMQ was to confirm 2 messages, and {why}: no figure is worth that"):
        confirms.hear(ack(1) + said)
