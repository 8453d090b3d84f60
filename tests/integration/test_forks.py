"""A child that is forked while a thread of its parent uses SQLite: it can use the database as any other process can."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform import ROOT, Platform

pytestmark = pytest.mark.embedded

# A thread is in the middle of a transaction when the child is forked; the child writes, with little patience.
_PROGRAM = """
import os, sys, threading
import django
django.setup()
from django.conf import settings
settings.DATABASES["default"]["OPTIONS"]["timeout"] = 0.5
from django.contrib.auth.models import Group
from django.db import connection, transaction
from workers import forks

forks.keep_apart()
writes, may_end = threading.Event(), threading.Event()

def write():
    with forks.database_work(), transaction.atomic():
        Group.objects.create(name="by a thread")
        writes.set()
        may_end.wait(0.3)

def work():
    thread = threading.Thread(target=write)
    thread.start()
    writes.wait()
    child = os.fork()
    if child == 0:
        try:
            Group.objects.create(name="by a child")
        except BaseException as error:
            print("the child:", error, flush=True)
            os._exit(1)
        os._exit(0)
    may_end.set()
    thread.join()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

sys.exit(work())
"""


def test_a_child_forked_in_the_middle_of_its_parents_transaction_is_not_locked_out(tmp_path: Path) -> None:
    with Platform(tmp_path, is_full=False) as platform:
        platform.migrate()
        environment = {**platform.environment, "DJANGO_SETTINGS_MODULE": "scheduler_project.settings"}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        named = {name for (name,) in platform.rows("SELECT name FROM auth_group WHERE name LIKE 'by a %'")}
        assert named == {"by a thread", "by a child"}
