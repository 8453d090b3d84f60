"""Threads of a fresh process that ask for a task before all tasks are loaded."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import django
django.setup()
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from jobs import targets
gate = Barrier(8)
def ask(_):
    gate.wait()
    targets.check("onbeat.echo", lives_elsewhere=False)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(ask, range(8)))
"""


def test_no_task_is_refused_while_the_tasks_are_being_loaded() -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "scheduler_project.settings", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
