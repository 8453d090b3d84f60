"""Counts of a process and of those forked from it come together to the unit, whatever becomes of them.

Each test is a Python of its own: what is counted in a process stays with it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform import ROOT

pytestmark = pytest.mark.embedded

_BEGIN = """
import os, signal, sys, tempfile, threading
from pathlib import Path
import django
django.setup()
from executions import events, metrics, metrics_folder, scraping

def counted(name="onbeat_fires_planned_total"):
    page = scraping.page().decode()
    (value,) = [line.rpartition(" ")[2] for line in page.splitlines() if line.rpartition(" ")[0] == name]
    return float(value)

def child(work, *, wait=True):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print("the child:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    if wait:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return pid

def share():
    folder = metrics_folder.begin()
    metrics.share_through(folder)
    return Path(folder)
"""


def python(tmp_path: Path, code: str, **environment: str) -> str:
    """What it prints. Its temporary files are the test's."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + code],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"},
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
            "TMPDIR": str(tmp_path),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def folders(tmp_path: Path) -> list[str]:
    return [each.name for each in tmp_path.iterdir() if each.name.startswith("onbeat-metrics-")]


def test_all_that_has_a_fixed_set_of_labels_is_shown_as_zero_from_the_start(tmp_path: Path) -> None:
    shown = python(tmp_path, "print(scraping.page().decode())")
    for line in (
        "onbeat_fires_planned_total 0.0",
        'onbeat_published_total{what="retry"} 0.0',
        'onbeat_fires_skipped_total{reason="overlap"} 0.0',
        'onbeat_attempts_total{outcome="WORKER_LOST"} 0.0',
        'onbeat_executions_total{state="DEAD"} 0.0',
        "onbeat_attempt_seconds_count 0.0",
    ):
        assert line in shown.splitlines()
    assert "onbeat_warnings_total{" not in shown
    assert "_created" not in shown


def test_counts_of_children_that_run_ended_or_were_killed_come_together(tmp_path: Path) -> None:
    code = """
folder = share()
metrics.FIRES_PLANNED.add(1)
for _ in range(3):
    child(lambda: (metrics.FIRES_PLANNED.add(10), metrics.ATTEMPT.observe_all([0.2, 7])))
killed = child(lambda: (metrics.FIRES_PLANNED.add(100), os.kill(os.getpid(), signal.SIGKILL)), wait=False)
os.waitpid(killed, 0)
counted_it, go_on = os.pipe(), os.pipe()
def stay():
    metrics.FIRES_PLANNED.add(1000)
    os.write(counted_it[1], b".")
    os.read(go_on[0], 1)
    metrics.FIRES_PLANNED.add(1000)
staying = child(stay, wait=False)
os.read(counted_it[0], 1)
print(counted(), counted(), counted("onbeat_attempt_seconds_count"), counted("onbeat_attempt_seconds_sum"))
files = sorted(each.name for each in folder.glob("counter_*.db"))
assert files == sorted(f"counter_{pid}.db" for pid in (0, os.getpid(), staying)), files
os.write(go_on[1], b".")
os.waitpid(staying, 0)
child(lambda: metrics.FIRES_PLANNED.add(10))
print(counted(), counted(), counted('onbeat_attempt_seconds_bucket{le="0.5"}'))
"""
    assert python(tmp_path, code).splitlines() == ["1131.0 1131.0 6.0 21.6", "2141.0 2141.0 3.0"]


def test_a_scrape_never_counts_twice_or_loses_anything_while_children_come_and_go(tmp_path: Path) -> None:
    """Several processes answer scrapes, as several web processes do, and each sweeps."""
    code = """
share()
metrics.FIRES_PLANNED.add(0.0)
def scrape():
    last = 0.0
    for _ in range(60):
        now = counted()
        assert last <= now <= 2000, (last, now)
        last = now
scrapers = [child(scrape, wait=False) for _ in range(4)]
for _ in range(200):
    child(lambda: metrics.FIRES_PLANNED.add(10))
for scraper in scrapers:
    assert os.waitstatus_to_exitcode(os.waitpid(scraper, 0)[1]) == 0
print(counted())
"""
    assert python(tmp_path, code) == "2000.0"


def test_a_fork_while_another_thread_counts_or_scrapes_leaves_the_child_free_to_count(tmp_path: Path) -> None:
    code = """
share()
stop = threading.Event()
def count():
    while not stop.is_set():
        metrics.FIRES_PLANNED.add(1)
        metrics.TICK.observe(0.1)
def scrape():
    while not stop.is_set():
        scraping.page()
threads = [threading.Thread(target=each, daemon=True) for each in (count, count, scrape)]
for thread in threads:
    thread.start()
signal.alarm(50)
for _ in range(60):
    child(lambda: (signal.alarm(5), metrics.RETRIES.add(1)))
stop.set()
for thread in threads:
    thread.join()
print(counted("onbeat_retries_total"))
"""
    assert python(tmp_path, code) == "60.0"


def test_a_file_in_which_nothing_is_yet_is_no_hindrance(tmp_path: Path) -> None:
    """As one has it that is killed right after it made its own."""
    code = """
folder = share()
metrics.FIRES_PLANNED.add(2)
(folder / "counter_1.db").touch()
(folder / "histogram_999999999.db").touch()
print(counted())
"""
    assert python(tmp_path, code) == "2.0"


def test_the_folder_is_gone_when_its_process_ends_and_not_when_a_child_does(tmp_path: Path) -> None:
    code = """
folder = share()
metrics.FIRES_PLANNED.add(1)
if os.fork() == 0:
    sys.exit(0)  # in an orderly way, with all that is done at the end of a process
os.wait()
print(folder.is_dir(), counted())
"""
    assert python(tmp_path, code) == "True 1.0"
    assert folders(tmp_path) == []


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_one_that_runs_has_is_not(tmp_path: Path) -> None:
    code = """
import subprocess
ended = subprocess.Popen(["true"]); ended.wait()
for name in (f"{ended.pid}-abc", f"{os.getpid()}-abc", "1-abc", "x-abc"):
    Path(tempfile.gettempdir(), f"onbeat-metrics-{name}").mkdir()
share()
print(ended.pid, os.getpid())
"""
    ended, own = python(tmp_path, code).split()
    assert sorted(folders(tmp_path)) == sorted(f"onbeat-metrics-{name}" for name in (f"{own}-abc", "1-abc", "x-abc"))
    assert ended


def test_who_cannot_count_works_on(tmp_path: Path) -> None:
    """Somebody tidied the folder away: what is counted from then on is lost, and nothing else."""
    code = """
import shutil
folder = share()
metrics.FIRES_PLANNED.add(1)
shutil.rmtree(folder)
def work():
    metrics.FIRES_PLANNED.add(1)
    metrics.FIRES_PLANNED.add(1)
    metrics.ATTEMPT.observe(1.0)
    events.warn("the broker is away")
child(work)
assert b"onbeat_build_info" in scraping.page()
print("done")
"""
    assert python(tmp_path, code) == "done"


def test_without_a_folder_each_process_shows_its_own(tmp_path: Path) -> None:
    code = """
metrics.FIRES_PLANNED.add(1)
child(lambda: metrics.FIRES_PLANNED.add(10))
print(counted())
"""
    assert python(tmp_path, code) == "1.0"


def test_a_count_takes_no_negative_time_and_no_zero(tmp_path: Path) -> None:
    """Clocks are set back; and a batch in which nothing was is no news."""
    code = """
metrics.LATENESS.observe(-3.0)
metrics.WARNINGS.add(0, "the broker is away")
page = scraping.page().decode()
print(counted("onbeat_lateness_seconds_sum"), counted("onbeat_lateness_seconds_count"), "the broker is away" in page)
"""
    assert python(tmp_path, code) == "0.0 1.0 False"
