"""Where the Prometheus of the tests comes from, and what is said when there is none."""

import os
from pathlib import Path

import pytest

from launcher import folders, packages, prometheus, testing
from launcher.prometheus import Programs
from launcher.service_record import ServicesUnavailable

# As apt-get and dpkg-deb do it: the one leaves a package in the folder it is called in, the other unpacks it.
APT_GET = 'echo "apt-get $@" >>{asked}; case "$*" in *download*) touch prometheus_2.42.deb;; esac'
DPKG_DEB = """
echo "$@" | grep -q "^--extract .*/prometheus_2.42.deb " || exit 1
mkdir -p "$3/usr/bin"
touch "$3/usr/bin/prometheus" "$3/usr/bin/promtool"
"""


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of programs that come before all others; no Prometheus is there, nor anywhere else."""
    folder = tmp_path / "programs"
    folder.mkdir()
    rest = [path for path in os.environ["PATH"].split(":") if not Path(path, "promtool").exists()]
    monkeypatch.setenv("PATH", ":".join([str(folder), *rest]))
    monkeypatch.setattr(prometheus, "UNPACKED", tmp_path / "var" / "prometheus")
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.chdir(folders.ROOT)
    return folder


@pytest.fixture
def debian(programs: Path, tmp_path: Path) -> Path:
    """A machine with apt-get; what it was asked."""
    asked = tmp_path / "asked"
    put(programs, "apt-get", APT_GET.format(asked=asked))
    put(programs, "dpkg-deb", DPKG_DEB)
    return asked


def put(folder: Path, name: str, script: str = "") -> Path:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return folder / name


def test_one_that_is_on_the_path_is_taken_if_both_programs_are_there(programs: Path) -> None:
    put(programs, "promtool")
    assert prometheus.find() is None
    put(programs, "prometheus")
    assert prometheus.find() == Programs(programs / "prometheus", programs / "promtool")


def test_debians_package_is_unpacked_and_nothing_is_installed(debian: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "var" / "prometheus" / "usr" / "bin"
    expected = Programs(unpacked / "prometheus", unpacked / "promtool")
    assert prometheus.provide(tmp_path / "log", print) == expected == prometheus.find()
    assert "install " not in debian.read_text()
    assert os.listdir(tmp_path / "var") == ["prometheus"]

    before = debian.read_text()
    assert prometheus.provide(tmp_path / "log", print) == expected
    assert debian.read_text() == before


@pytest.mark.parametrize("missing", ["apt-get", "dpkg-deb"])
def test_where_there_is_no_debian_there_is_none(
    debian: Path, programs: Path, missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (programs / missing).unlink()
    monkeypatch.setenv("PATH", str(programs))
    assert prometheus.provide(tmp_path / "log", print) is None
    assert not debian.exists()


@pytest.mark.parametrize("failing", ["apt-get", "dpkg-deb"])
def test_a_failure_is_said_and_leaves_nothing_behind(
    debian: Path, programs: Path, failing: str, tmp_path: Path
) -> None:
    script = f"{(programs / failing).read_text()}\necho the reason; exit 1"
    put(programs, failing, script)
    said: list[str] = []
    assert prometheus.provide(tmp_path / "log", said.append) is None
    assert "apt-get could not fetch prometheus." in said[-1]
    assert "the reason" in said[-1]
    assert os.listdir(tmp_path / "var") == []


def test_what_was_unpacked_halfway_is_replaced(debian: Path, tmp_path: Path) -> None:
    (tmp_path / "var" / "prometheus" / "usr").mkdir(parents=True)
    assert prometheus.provide(tmp_path / "log", print) == prometheus.find() is not None


@pytest.mark.parametrize("is_wanted", [True, False])
def test_the_test_command_provides_it_for_the_tests_that_need_it(
    programs: Path, is_wanted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Path] = []

    def unpack(_package: str, into: Path, _log: Path, _say: object) -> None:
        asked.append(into)
        raise ServicesUnavailable("apt-get could not fetch prometheus.")

    monkeypatch.setattr(packages, "can_unpack", lambda: True)
    monkeypatch.setattr(packages, "unpack", unpack)
    monkeypatch.setattr(testing, "_TOOLS", {"prometheus": prometheus})
    named = ["tests/unit", "-k", "alerts"]
    monkeypatch.setattr(
        testing, "_collected", lambda arguments: arguments == ["-m", "prometheus", *named] and is_wanted
    )
    with testing._tools_provided(named):
        pass
    assert asked == ([prometheus.UNPACKED] if is_wanted else [])
    said = capsys.readouterr().out
    assert ("There is no Prometheus on this machine" in said) == is_wanted
    assert (prometheus.HOW_TO_GET_IT in said) == is_wanted
