"""The page on backups, followed as a reader would, against a platform at work: on PostgreSQL, and embedded."""

import os
from pathlib import Path

import pytest

from launcher.binaries import find_postgres
from tests.acceptance.following import a_reader, follow
from tests.acceptance.restoring import ASIDE, QUICK, Side
from tests.platform import BIN
from tests.unit.doc_pages import page
from tests.waiting import wait_until

PAGE = "how-to/back-up-and-restore.md"
LINE = "sha256sum --check onbeat.dump.sha256"
UPKEEP = "./onbeat upkeep lost-messages rescue"
# As the page says of a dump that is younger than the time after which workers and messages count as lost.
PATIENT = f"until [ $(date +%s) -gt $(( $(date -r $DUMP +%s) + 4 )) ]; do sleep 0.1; done\n{UPKEEP}"
COUNT = "SELECT count(*) FROM onbeat_execution WHERE state IN ('QUEUED', 'RUNNING')"


def is_at_work(side: Side) -> None:
    side.migrate()
    side.call("make_jobs")
    side.worker_of(*QUICK)
    side.is_at_work(beats=1)
    side.call("ask_for_runs")
    wait_until(lambda: side.count(f"{COUNT} AND queue = '{ASIDE}'") == 40, what="runs wait for a worker")


@pytest.mark.full
@pytest.mark.skipif(find_postgres() is None, reason="PostgreSQL's programs are not on this machine")
def test_the_commands_for_postgresql_restore_a_platform_that_is_well(tmp_path: Path) -> None:
    text, rest = page(PAGE).split("**5. Start**")
    with Side(tmp_path / "new", is_full=True) as new:
        new._administer(f'DROP DATABASE "{new.name}"')  # the page makes it
        with Side(tmp_path / "old", is_full=True) as old:
            is_at_work(old)
            for said, meant in {
                LINE: f"export DATABASE_URL={new.environment['DATABASE_URL']}\n{LINE}",
                UPKEEP: PATIENT,
                '"$ADMIN_URL" onbeat\n': f'"{old.environment["DATABASE_URL"]}" {new.name}\n',
            }.items():
                assert text.count(said) == 1
                text = text.replace(said, meant)
            path = f"{find_postgres()}{os.pathsep}{os.environ['PATH']}"
            prefix = {"ONBEAT_EXECUTIONS_PREFIX": new.environment["ONBEAT_EXECUTIONS_PREFIX"]}
            reader = a_reader(old)
            follow(text, reader, {**old.environment, **prefix, "PATH": path, "DUMP": "onbeat.dump"})
        assert new.count(COUNT) == 0
        new.worker_of(*QUICK, ASIDE)
        new.is_at_work(beats=1)
        wait_until(lambda: new.count(f"{COUNT} AND queue = '{ASIDE}'") == 0, what="runs that waited are over")
        assert "./onbeat doctor\n./onbeat stats\n" in rest
        for command in ("doctor", "stats"):
            assert new.manage(command)


@pytest.mark.embedded
def test_the_commands_for_an_embedded_one_restore_it_into_an_empty_folder(tmp_path: Path) -> None:
    _, text = page(PAGE).split("## Embedded\n")
    with Side(tmp_path / "var", is_full=False) as old:
        is_at_work(old)
        (old.folder / "secret_key").write_text("only-for-tests")
        reader = a_reader(old)
        (reader / "var").symlink_to(old.folder)
        (reader / ".venv").symlink_to(BIN.parent)
        restored = f"DATA_DIR=restored {UPKEEP}"
        assert text.count(restored) == 1
        text = text.replace(restored, PATIENT.replace(UPKEEP, restored))
        follow(text, reader, {**old.environment, "DUMP": "onbeat.backup"})
    with Side(tmp_path / "new", is_full=False) as new:
        for name in ("onbeat.sqlite3", "secret_key"):
            (reader / "restored" / name).rename(new.folder / name)
        assert new.count(COUNT) == 0
        assert new.count(f"SELECT count(*) FROM onbeat_execution WHERE queue = '{ASIDE}'") == 40
