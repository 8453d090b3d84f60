"""Several users of one set of private services: the last one stops them, unless a person wants them to run on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher import services

pytestmark = pytest.mark.full


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    yield tmp_path
    services.stop(tmp_path, lambda _line: None)


def quiet(_line: str) -> None:
    pass


def test_the_last_user_stops_them_and_a_person_can_keep_them(data_dir: Path) -> None:
    with services.held(data_dir, quiet) as addresses:
        with services.held(data_dir, quiet) as same:
            assert same == addresses
        assert services.running(data_dir) == addresses

        assert services.main(["start"]) == 0
    assert services.running(data_dir) == addresses

    assert services.main(["stop"]) == 0
    assert services.running(data_dir) is None
    assert not (services.services_folder(data_dir) / "kept").exists()


def test_what_nobody_kept_is_stopped_at_the_end(data_dir: Path) -> None:
    with services.held(data_dir, quiet):
        assert services.running(data_dir) is not None
    assert services.running(data_dir) is None
