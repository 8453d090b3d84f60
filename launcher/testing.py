"""`./onbeat test`: every check and test, in one command. CI runs exactly this.

Two tiers: embedded (SQLite, folder broker, no services) and full (private PostgreSQL, Redis and RabbitMQ). Without
services the full tier is left out and that is said loudly; with CI=true it is a failure. The same holds for the tests
in a browser and those with Prometheus where there is none, which they see to themselves.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from launcher import browser, folders, prometheus, services
from launcher.refusal import Refusal

_NO_TESTS_COLLECTED = 5
_SERVICE_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "ONBEAT_ENV_FILE")
_EMBEDDED = ("-m", "not full")
_FULL = ("-m", "not embedded and not unit")
_TOOLS = {"browser": browser, "prometheus": prometheus}  # by the mark of the tests that need it
_REAL_PROCESSES = "tests/acceptance"
_RACES = "tests/races"
_UNIT = "tests/unit"
_GIVING_WAY = ("nice", "-n", "19")
# Of these, and all others: groups that take about as long as each other, and one with servers of its own.
_CHAOS = "chaos"  # the first
_GROUPS = {
    _CHAOS: ("test_chaos.py",),
    "workers and services": ("test_worker_*.py", "test_*services*.py"),
    "API, callbacks and pages": ("test_api_*.py", "test_callback*.py", "test_*browser.py"),
    "restores and takeovers": ("test_backup_*.py", "test_failover.py", "test_blue_green.py", "test_moving_in*.py"),
    "seen from outside": ("test_alerts.py", "test_scraping.py", "test_flower.py", "test_open_to_others.py"),
}


def run(arguments: Sequence[str]) -> int:
    """All steps, or with arguments only pytest with these; every step runs even if one before it failed."""
    os.chdir(folders.ROOT)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onbeat-test-") as scratch:
        embedded = {"DATA_DIR": scratch}
        results: dict[str, bool] = {}
        with _tools_provided(arguments):
            if not arguments:
                for name, command in _static_checks().items():
                    results[name] = _step(name, command, embedded)
        results |= _both_tiers(arguments, scratch)
    return _summary(results, time.monotonic() - started)


@contextmanager
def _tools_provided(arguments: Sequence[str]) -> Iterator[None]:
    """Beside what is done within; only what is missing and a test wants. Both tiers find it, if there is one."""
    missing = {
        mark: tool
        for mark, tool in _TOOLS.items()
        if not tool.find() and (not arguments or _collected(["-m", mark, *arguments]))
    }
    if not missing:
        yield
        return
    with ThreadPoolExecutor(max_workers=1) as installing:  # apt-get does one thing at a time
        provided = {
            tool: installing.submit(tool.provide, folders.data_dir() / f"{mark}-install.log", print)
            for mark, tool in missing.items()
        }
        yield
    for tool, there in provided.items():
        if not there.result():
            print(f"\n!!! {tool.MISSING} {tool.HOW_TO_GET_IT}\n")


def _both_tiers(arguments: Sequence[str], scratch: str) -> dict[str, bool]:
    """Side by side, since both mostly wait for processes."""
    environment = _clean_environment({"DATA_DIR": scratch})
    # The unit tests come after those with processes, which are done before all others.
    rest = [f"--ignore={each}" for each in (_REAL_PROCESSES, _UNIT)]
    parts = [arguments] if arguments else [rest, [_REAL_PROCESSES, _UNIT]]
    with ExitStack() as stack:
        embedded = [stack.enter_context(_beside("tests, embedded", [*_EMBEDDED, *part], environment)) for part in parts]
        is_full_good = _full_tier(arguments, scratch)
    is_embedded_good = all(tests.returncode in (0, _NO_TESTS_COLLECTED) for tests in embedded)
    return {"tests, embedded": is_embedded_good, "tests, full": is_full_good}


@contextmanager
def _beside(name: str, arguments: Sequence[str], environment: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """Run pytest beside something else, to the end of both. What it says is shown then."""
    with tempfile.TemporaryFile("w+") as said:
        tests = subprocess.Popen(_pytest(arguments), env=environment, stdout=said, stderr=subprocess.STDOUT)
        try:
            yield tests
        finally:
            tests.wait()
            said.seek(0)
            print(f"\n── {name} ──\n{said.read()}", flush=True)


def _pytest(arguments: Sequence[str]) -> list[str]:
    """A run without processes of its own gives way to those with: what these start is watched as it happens."""
    has_processes = any(argument.startswith(_REAL_PROCESSES) for argument in arguments)
    return [*([] if has_processes else _GIVING_WAY), sys.executable, "-m", "pytest", *arguments]


def _static_checks() -> dict[str, list[str]]:
    python = sys.executable
    return {
        "format": [python, "-m", "ruff", "format", "--check", "--quiet", "."],
        "lint": [python, "-m", "ruff", "check", "--quiet", "."],
        "types": [python, "-m", "mypy", "--no-error-summary"],
        "migrations": [python, "manage.py", "makemigrations", "--check", "--dry-run"],
    }


def _full_tier(arguments: Sequence[str], scratch: str) -> bool:
    if arguments and not _collected([*_FULL, *arguments]):
        return True  # the named tests have nothing to do with services
    data_dir = folders.data_dir()
    try:
        with services.held(data_dir, print) as addresses:
            return _on_services(arguments, _clean_environment({"DATA_DIR": scratch, **addresses.as_env()}))
    except services.ServicesUnavailable as reason:
        return _leave_out(arguments, str(reason))


def _on_services(arguments: Sequence[str], environment: dict[str, str]) -> bool:
    """What was asked for; or all, the races and the tests with real processes (and databases of their own) beside."""
    if arguments:
        return _run_full(arguments, environment)
    with ExitStack() as stack:
        apart = _with_a_database_of_its_own(environment)
        beside = [stack.enter_context(_beside("tests, full, races", [*_FULL, _RACES], apart))]
        for name, files in _real_processes().items():
            tests = stack.enter_context(_beside(f"tests, full, {name}", [*_FULL, *files], environment))
            beside.append(tests)
            if name == _CHAOS:
                tests.wait()  # it wants all to be over in time, and has the processors for itself while others give way
        is_rest_good = _run_full([f"--ignore={each}" for each in (_REAL_PROCESSES, _RACES, _UNIT)], environment)
    return is_rest_good and all(tests.returncode == 0 for tests in beside)


def _real_processes() -> dict[str, list[str]]:
    """The files of each group."""
    folder = Path(_REAL_PROCESSES)
    groups = {name: {path for each in patterns for path in folder.glob(each)} for name, patterns in _GROUPS.items()}
    groups["beats and all else"] = set(folder.glob("test_*.py")).difference(*groups.values())
    return {name: sorted(map(str, files)) for name, files in groups.items()}


def _with_a_database_of_its_own(environment: Mapping[str, str]) -> dict[str, str]:
    """Django names the database of the tests after the one of the address, and two runs must not have the same."""
    return {**environment, "DATABASE_URL": f"{environment['DATABASE_URL']}_races"}


def _run_full(arguments: Sequence[str], environment: dict[str, str]) -> bool:
    print("\n── tests, full ──", flush=True)
    return subprocess.run(_pytest([*_FULL, *arguments]), env=environment, check=False).returncode == 0


def _leave_out(arguments: Sequence[str], reason: str) -> bool:
    """Say how many tests do not run, and why. In CI that is a failure: green must mean all of them."""
    count = _collected(["-m", "full", *arguments])
    print(f"\n!!! LEFT OUT: {count} tests that need PostgreSQL, Redis and RabbitMQ did not run.\n!!! {reason}\n")
    return os.environ.get("CI", "").lower() not in ("true", "1")


def _collected(arguments: Sequence[str]) -> int:
    """How many tests pytest would run."""
    collect = ["--collect-only", "-q", *arguments]
    listed = subprocess.run(_pytest(collect), env=_clean_environment({}), capture_output=True, text=True, check=False)
    return sum("::" in line for line in listed.stdout.splitlines())


def _step(name: str, command: Sequence[str], environment: Mapping[str, str]) -> bool:
    started = time.monotonic()
    done = subprocess.run(
        command, env=_clean_environment(environment), capture_output=True, text=True, errors="replace", check=False
    )
    seconds = time.monotonic() - started
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name} ({seconds:.1f} s)", flush=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0


def _clean_environment(wanted: Mapping[str, str]) -> dict[str, str]:
    """A test must not touch the services that the caller's environment or `.env` happens to name: empty is embedded.
    Nor are hundreds of processes to compile all modules anew because an image forbids Python to keep what it compiled.
    """
    return {**os.environ, **dict.fromkeys((*_SERVICE_VARIABLES, "PYTHONDONTWRITEBYTECODE"), ""), **wanted}


def _summary(results: Mapping[str, bool], seconds: float) -> int:
    failed = [name for name, is_good in results.items() if not is_good]
    print(f"\n{len(results) - len(failed)} of {len(results)} steps passed in {seconds:.0f} s.", flush=True)
    if failed:
        raise Refusal(f"The test command failed in: {', '.join(failed)}.")
    return 0
