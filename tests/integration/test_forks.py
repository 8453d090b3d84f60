"""A worker's children and SQLite: whenever one is forked, it can use the database as any other process can."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform import ROOT, Platform

pytestmark = pytest.mark.embedded

_BEGIN = """
import os, sys, threading
import django
django.setup()
from django.conf import settings
settings.DATABASES["default"]["OPTIONS"]["timeout"] = 0.5
from django.contrib.auth.models import Group
from django.db import connection, transaction
from workers import forks

forks.keep_apart()

def started(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print("the child:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return child

def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

# A thread is in the middle of a transaction when the child is forked; the child writes, with little patience.
_WRITES_MEANWHILE = """
writes, is_forked = threading.Event(), threading.Event()

def write():
    with forks.database_work(), transaction.atomic():
        Group.objects.create(name="by a thread")
        writes.set()
        is_forked.wait(0.3)  # in vain: the fork waits for us

thread = threading.Thread(target=write)
thread.start()
writes.wait()
child = started(lambda: Group.objects.create(name="by a child"))
is_forked.set()
thread.join()
sys.exit(code_of(child))
"""

# A handler that starts a process of its own while it reads.
_FORKS_ITSELF = """
def handle():
    Group.objects.bulk_create(Group(name=f"by a child {n}") for n in range(3))
    rows = Group.objects.filter(name__startswith="by a child").iterator(chunk_size=1)
    names = [next(rows).name]
    assert code_of(started(lambda: None)) == 0
    names += [row.name for row in rows]
    assert len(names) == 3, names

sys.exit(code_of(started(handle)))
"""


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    with Platform(tmp_path, is_full=False) as started:
        started.migrate()
        yield started


def run(program: str, platform: Platform) -> None:
    environment = {**platform.environment, "DJANGO_SETTINGS_MODULE": "scheduler_project.settings"}
    words = [sys.executable, "-c", _BEGIN + program]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_child_forked_in_the_middle_of_its_parents_transaction_is_not_locked_out(platform: Platform) -> None:
    run(_WRITES_MEANWHILE, platform)
    named = {name for (name,) in platform.rows("SELECT name FROM auth_group WHERE name LIKE 'by a %'")}
    assert named == {"by a thread", "by a child"}


def test_a_handler_that_forks_keeps_its_connection(platform: Platform) -> None:
    run(_FORKS_ITSELF, platform)
