"""The one-file launcher: what it says when a start cannot go on, and what it does only once."""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def onbeat(tmp_path: Path) -> Iterator[ModuleType]:
    """The launcher as a module, at work on a project folder of the test's own."""
    loader = SourceFileLoader("onbeat_file", str(ROOT / "onbeat"))
    spec = importlib.util.spec_from_loader("onbeat_file", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    venv = tmp_path / ".venv"
    module.ROOT, module.VENV = str(tmp_path), str(venv)
    module.VENV_PYTHON, module.STAMP = str(venv / "bin" / "python"), str(venv / "installed")
    module.INSTALL_LOG = str(venv / "install.log")
    return module


@pytest.fixture
def requirements(tmp_path: Path) -> list[str]:
    """Requirements that need nothing, so that installing them takes no network."""
    path = tmp_path / "requirements.txt"
    path.write_text("# none\n")
    return [str(path)]


def test_it_parses_on_the_pythons_that_it_refuses() -> None:
    ast.parse((ROOT / "onbeat").read_text(encoding="utf-8"), feature_version=(3, 6))


def test_a_python_that_is_too_old_is_refused_in_one_sentence(
    onbeat: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onbeat.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(onbeat.shutil, "which", lambda _name: None)
    with pytest.raises(onbeat.Refusal, match=r"Python 3\.11 or newer is needed and this is 3\.9; install one"):
        onbeat.use_new_enough_python()


def test_a_newer_python_at_hand_is_used_instead(onbeat: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    went_on_under: list[str] = []
    monkeypatch.setattr(onbeat.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(onbeat.shutil, "which", lambda name: sys.executable if name == "python3.12" else None)
    monkeypatch.setattr(onbeat.os, "execv", lambda path, _words: went_on_under.append(path))
    with pytest.raises(onbeat.Refusal):  # execv does not return in earnest
        onbeat.use_new_enough_python()
    assert went_on_under == [sys.executable]


def test_a_python_without_ensurepip_names_the_package_to_install(
    onbeat: ModuleType, requirements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onbeat.importlib.util, "find_spec", lambda _name: None)
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    with pytest.raises(onbeat.Refusal, match=f"install the package {package}"):
        onbeat.prepare_environment(requirements)
    assert not Path(onbeat.VENV).exists()


def test_a_project_folder_that_cannot_be_written_is_refused(
    onbeat: ModuleType, requirements: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    onbeat.VENV = str(tmp_path / "a file" / ".venv")
    with pytest.raises(onbeat.Refusal, match="put the project in a folder that you may write to"):
        onbeat.prepare_environment(requirements)


def test_the_environment_is_made_once_and_anew_when_the_requirements_change(
    onbeat: ModuleType, requirements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    onbeat.prepare_environment(requirements)
    assert subprocess.check_output([onbeat.VENV_PYTHON, "-c", "print(6 * 7)"], text=True) == "42\n"
    ran: list[str] = []
    monkeypatch.setattr(onbeat, "watch", lambda _command, _log, what: ran.append(what))
    onbeat.prepare_environment(requirements)
    assert ran == []
    Path(requirements[0]).write_text("# still none\n")
    onbeat.prepare_environment(requirements)
    assert ran == ["Installing requirements"]


def test_an_environment_that_was_left_half_made_is_made_anew(onbeat: ModuleType, requirements: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", onbeat.VENV], check=True)
    onbeat.prepare_environment(requirements)
    assert subprocess.call([onbeat.VENV_PYTHON, "-c", "import pip"]) == 0


def test_an_install_that_fails_shows_the_end_of_its_log(onbeat: ModuleType, tmp_path: Path) -> None:
    onbeat.VENV_PYTHON = sys.executable  # an environment that is there, with its pip
    (tmp_path / ".venv").mkdir()
    bad = tmp_path / "bad.txt"
    bad.write_text(f"-r {tmp_path / 'not-there.txt'}\n")
    with pytest.raises(onbeat.Refusal, match=r"(?s)installing requirements failed.*not-there\.txt"):
        onbeat.prepare_environment([str(bad)])
    assert not os.path.exists(onbeat.STAMP)


@pytest.mark.parametrize(
    ("words", "target", "needs"),
    [
        (["bench", "--only", "idle"], ["-m", "benchmarks", "all", "--only", "idle"], ["", "-dev"]),
        (["test", "tests/unit"], ["-m", "launcher", "test", "tests/unit"], ["", "-dev"]),
        (["chaos", "--plan"], ["-m", "chaos", "--plan"], [""]),
        (["services"], ["-m", "launcher", "services"], [""]),
    ],
)
def test_a_command_is_handed_over_once_what_it_needs_is_there(
    onbeat: ModuleType, monkeypatch: pytest.MonkeyPatch, words: list[str], target: list[str], needs: list[str]
) -> None:
    installed: list[str] = []
    started: list[list[str]] = []
    monkeypatch.setattr(onbeat, "prepare_environment", installed.extend)
    monkeypatch.setattr(onbeat.os, "execv", lambda _path, command: started.append(command))
    monkeypatch.setenv("PYTHONPATH", "")  # which is changed, and is put back
    onbeat.main(words)
    assert started == [[onbeat.VENV_PYTHON, *target]]
    assert [Path(path).name for path in installed] == [f"requirements{each}.txt" for each in needs]
