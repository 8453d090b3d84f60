"""`import_beat` from another database, which is never written, and from an app, which is loaded apart from ours."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings as project_settings
from django.core.management import CommandError

from terminal.importing import databases
from tests.at_terminal import document, refusal
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]


def a_database(path: Path, name: str = "bill") -> str:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE django_celery_beat_periodictask (id integer, name text, task text, interval_id int)"
        )
        database.execute("CREATE TABLE django_celery_beat_intervalschedule (id integer, every integer, period text)")
        database.execute("INSERT INTO django_celery_beat_intervalschedule VALUES (1, 5, 'minutes')")
        database.execute("INSERT INTO django_celery_beat_periodictask VALUES (1, ?, 'onbeat.echo', 1)", [name])
    return f"sqlite://{path}"


def test_another_database_is_read_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = a_database(tmp_path / "old.sqlite3")
    before = (tmp_path / "old.sqlite3").read_bytes()
    told = document("import_beat", "--database", address)
    assert told["jobs"][0]["schedule_in_words"] == "Every 5 minutes"
    monkeypatch.setenv("OLD_DATABASE", address)
    assert document("import_beat", "--database-from-env", "OLD_DATABASE") == told
    assert (tmp_path / "old.sqlite3").read_bytes() == before


def test_whatever_is_said_to_another_database_it_is_not_written(tmp_path: Path, is_full: bool) -> None:
    address = project_settings.DATABASE_URL if is_full else a_database(tmp_path / "old.sqlite3")
    with pytest.raises(CommandError, match=r"read-?only"), databases.opened(address) as database:
        database.cursor().execute("CREATE TABLE not_here (x integer)")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("sqlite:////nowhere/at/all", "There is no file '/nowhere/at/all'"),
        ("mysql://u:geheim@h/db", "--database must be postgresql://"),
        ("postgresql://u:geheim@127.0.0.1:1/db", "The database at --database cannot be read"),
        ("postgresql://u:geheim@[half/db", "--database is no address"),
        ("postgresql://u:geheim@h:99999/db", "--database is no address"),
        ("geheim", "--database must be postgresql://"),
    ],
)
def test_a_database_that_cannot_be_read_is_refused_without_its_password(address: str, says: str) -> None:
    text = refusal("import_beat", "--database", address)
    assert says in text
    assert "geheim" not in text


def test_a_database_without_the_tables_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    assert "There is no table django_celery_beat_periodictask" in refusal("import_beat")
    with closing(sqlite3.connect(tmp_path / "other")) as database:
        database.execute("CREATE TABLE t (x)")
    assert "There is no table" in refusal("import_beat", "--database", f"sqlite://{tmp_path}/other")
    (tmp_path / "text").write_text("This is no database, whatever its name says." * 100)
    assert "cannot be read (file is not a database)" in refusal(
        "import_beat", "--database", f"sqlite://{tmp_path}/text"
    )


def test_an_app_is_loaded_apart_from_ours_and_what_it_prints_is_not_taken_for_its_schedule(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import os\n"
        "print('hello')\n"
        "from celery import Celery\n"
        "app = Celery('shop')\n"
        "app.conf.enable_utc = False\n"
        "app.conf.timezone = 'Asia/Tokyo'\n"
        "from celery.schedules import crontab\n"
        "app.conf.beat_cron_starting_deadline = 90\n"
        "app.conf.beat_schedule = {\n"
        "    os.environ.get('DJANGO_SETTINGS_MODULE', 'none'): {\n"
        "        'task': 'onbeat.echo', 'schedule': crontab(hour=3, minute=0)\n"
        "    },\n"
        "}\n"
    )
    told = document("import_beat", "--app", "shop", "--workdir", str(tmp_path), "--python", sys.executable)
    assert [job["name"] for job in told["jobs"]] == ["none"]
    assert told["jobs"][0]["definition"]["schedule"] == {
        "cron": "0 3 * * *",
        "timezone": "Asia/Tokyo",
        "misfire": {"policy": "skip", "grace": 90},
    }
    assert told["source"] == "Celery's beat_schedule"


def test_an_error_in_an_apps_code_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise RuntimeError('no settings')\n")
    assert "(RuntimeError: no settings)" in refusal("import_beat", "--app", "shop:app", "--workdir", str(tmp_path))
