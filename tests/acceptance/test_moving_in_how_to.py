"""The page on moving in, followed as a reader would, with a small django-celery-beat to leave."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from tests.acceptance.following import a_reader, follow
from tests.platform import Platform
from tests.tiers import once_embedded
from tests.unit.doc_pages import page

PAGE = "how-to/move-from-celery-beat.md"
_OLD = """
CREATE TABLE django_celery_beat_crontabschedule (id integer PRIMARY KEY, minute text, hour text, day_of_month text,
    month_of_year text, day_of_week text, timezone text);
CREATE TABLE django_celery_beat_intervalschedule (id integer PRIMARY KEY, every integer, period text);
CREATE TABLE django_celery_beat_periodictask (id integer PRIMARY KEY, name text, task text, crontab_id integer,
    interval_id integer, enabled bool, last_run_at datetime);
INSERT INTO django_celery_beat_crontabschedule VALUES (1, '0', '7', '*', '*', 'mon-fri', 'Europe/Berlin');
INSERT INTO django_celery_beat_intervalschedule VALUES (1, 5, 'minutes');
INSERT INTO django_celery_beat_periodictask VALUES (1, 'Send invoices', 'onbeat.echo', 1, NULL, 1, 'NOW');
INSERT INTO django_celery_beat_periodictask VALUES (2, 'poll-mailbox', 'onbeat.echo', NULL, 1, 1, 'NOW');
INSERT INTO django_celery_beat_periodictask VALUES (3, 'old-report', 'onbeat.echo', 1, NULL, 0, NULL);
"""


@once_embedded
def test_the_page_can_be_followed_from_top_to_bottom(platform: Platform, tmp_path: Path) -> None:
    platform.migrate()
    with closing(sqlite3.connect(tmp_path / "old.sqlite3")) as database:
        database.executescript(_OLD.replace("NOW", datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")))
    text, address = page(PAGE), "postgresql://shop:secret@127.0.0.1:5432/shop"
    assert text.count(address) == 1
    follow(text.replace(address, f"sqlite://{tmp_path}/old.sqlite3"), a_reader(platform), platform.environment)
