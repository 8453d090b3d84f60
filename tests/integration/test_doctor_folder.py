"""The doctor looks at the folder broker."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Producer

from executions import queues
from executions.clock import database_now
from tests.doctoring import Told, a_worker, doctor

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    """Of a broker that nobody has used yet."""
    settings.CELERY_BROKER_URL = f"folder://{tmp_path}/broker"
    return tmp_path / "broker"


def publish(folder: Path, name: str = "default") -> Path:
    """A message, as beats publish it; its file."""
    with Connection(f"folder://{folder}") as line:
        channel: Any = line.channel()
        queue = queues.work_queue(name).bind(channel)
        queue.declare()
        Producer(channel).publish({}, routing_key=queue.name)
    (file,) = (folder / "queues" / queue.name / "ready").iterdir()
    return file


def told() -> Told:
    return doctor("folder")


def test_a_folder_that_is_not_there_yet_is_a_note_and_stays_so(folder: Path) -> None:
    assert told().ids == ["folder.N01"]
    assert not folder.exists()


def test_a_folder_that_is_used_is_told_in_a_line(folder: Path, now: datetime) -> None:
    publish(folder)
    a_worker(now)
    assert (told().ids, told().says("folder")) == ([], "1 queue, 1 message waiting")


def test_a_file_in_its_place_is_an_error(folder: Path) -> None:
    folder.write_text("")
    assert told().only("folder.E01")["says"] == f"The folder of the broker cannot be used: {folder} is no folder."


def test_a_folder_that_this_user_may_not_write_to_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    monkeypatch.setattr("executions.folder_state.os.access", lambda *_: False)  # root may write anywhere
    assert told().only("folder.E01")["says"].endswith(f"{folder} cannot be written to.")


def test_messages_that_nobody_takes_are_an_error(folder: Path, now: datetime) -> None:
    publish(folder)
    a_worker(now, queues=[queues.work_queue("http").name])
    finding = told().only("folder.E02")
    assert finding["says"] == "1 message in 'onbeat.default', and no worker that lives reads it."


def test_a_worker_that_is_silent_takes_nothing(folder: Path, now: datetime) -> None:
    publish(folder)
    a_worker(now, heartbeat_at=now - timedelta(minutes=1))
    assert told().ids == ["folder.E02"]


def test_an_old_message_is_a_warning(folder: Path, now: datetime) -> None:
    file = publish(folder)
    a_worker(now)
    rank, _, *rest = file.name.split("-")
    then = now.astimezone(UTC) - timedelta(hours=25)
    file.rename(file.with_name("-".join([rank, f"{int(then.timestamp()) * 10**9:020d}", *rest])))
    assert told().only("folder.W01")["says"] == "The oldest message in 'onbeat.default' waits for 1 d 1 h."


def test_a_file_that_is_no_message_is_a_warning(folder: Path, now: datetime) -> None:
    publish(folder).write_text("{")
    a_worker(now)
    with Connection(f"folder://{folder}") as line:
        assert queues.work_queue("default").bind(line.channel()).get() is None
    assert told().only("folder.W02")["says"] == f"1 file set aside in {folder}/undecodable."


def test_queues_of_others_are_none_of_our_business(folder: Path) -> None:
    with Connection(f"folder://{folder}") as line:
        line.SimpleQueue("celery").put({})
    assert told().ids == []
