"""Where the browser of the tests comes from, and what is said when there is none."""

from pathlib import Path

import pytest

from launcher import browser, folders, packages, testing
from launcher.progress import Say
from launcher.service_record import ServicesUnavailable

NAMED = ["tests/acceptance", "-k", "pages"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder with programs: no browser is in it, and packages may be installed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(browser, "_ELSEWHERE", (tmp_path / "Chromium.app",))
    monkeypatch.setattr(packages, "can_install", lambda: True)
    monkeypatch.setattr(testing, "_TOOLS", {"browser": browser})
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.chdir(folders.ROOT)
    return folder


def put(folder: Path, name: str) -> Path:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, machine: Path) -> list[str]:
    """What was asked of apt-get, which puts it where it belongs."""
    asked: list[str] = []

    def install(names: list[str], _log: Path, _say: Say) -> None:
        asked.extend(names)
        for name in names:
            put(machine, name)

    monkeypatch.setattr(packages, "install", install)
    return asked


@pytest.fixture
def apt_fails(monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
    def install(_names: list[str], _log: Path, _say: Say) -> None:
        raise ServicesUnavailable("apt-get could not install chromium; install what is missing by hand.")

    monkeypatch.setattr(packages, "install", install)


def test_debians_chromium_comes_before_other_browsers_and_those_of_a_mac_come_last(
    machine: Path, tmp_path: Path
) -> None:
    assert browser.find() is None
    (tmp_path / "Chromium.app").touch()
    assert browser.find() == tmp_path / "Chromium.app"
    chrome = put(machine, "google-chrome")
    assert browser.find() == chrome
    chromium = put(machine, "chromium")
    assert browser.find() == chromium


def test_a_browser_that_is_there_is_not_installed(machine: Path, installed: list[str], tmp_path: Path) -> None:
    chrome = put(machine, "google-chrome")
    assert browser.provide(tmp_path / "log", print) == chrome
    assert installed == []


def test_a_missing_browser_is_installed(machine: Path, installed: list[str], tmp_path: Path) -> None:
    assert browser.provide(tmp_path / "log", print) == machine / "chromium"
    assert installed == ["chromium"]


def test_where_nothing_may_be_installed_there_is_none(
    machine: Path, installed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages, "can_install", lambda: False)
    assert browser.provide(tmp_path / "log", print) is None
    assert installed == []


def test_an_installation_that_fails_is_said_and_stops_nothing(apt_fails: None, tmp_path: Path) -> None:
    said: list[str] = []
    assert browser.provide(tmp_path / "log", said.append) is None
    assert said == ["apt-get could not install chromium; install what is missing by hand."]


@pytest.mark.parametrize("arguments", [[], NAMED])
def test_the_test_command_provides_it_before_the_tests_that_need_it(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "_collected", lambda asked: asked == ["-m", "browser", *NAMED])
    with testing._tools_provided(arguments):
        pass
    assert installed == ["chromium"]
    assert "no Chromium" not in capsys.readouterr().out


def test_tests_that_need_no_browser_do_not_install_one(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "_collected", lambda asked: 0)
    with testing._tools_provided(NAMED):
        pass
    assert installed == []
    assert capsys.readouterr().out == ""


def test_where_a_browser_is_nothing_is_collected_or_installed(
    machine: Path, installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "_collected", lambda asked: pytest.fail("there is no need to know"))
    put(machine, "chromium")
    with testing._tools_provided(NAMED):
        pass
    assert installed == []


def test_it_says_what_to_do_where_there_is_no_browser(apt_fails: None, capsys: pytest.CaptureFixture[str]) -> None:
    with testing._tools_provided([]):
        pass
    assert "There is no Chromium on this machine" in (said := capsys.readouterr().out)
    assert "apt-get install chromium" in said
