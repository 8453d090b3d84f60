"""Which services a benchmark runs on, and what it measures itself by."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest
from django.contrib.admin import site
from django.urls import resolve

from benchmarks import admin_pages, budgets, cpu_time, many_executions, many_jobs
from benchmarks.__main__ import in_words
from benchmarks.admin_pages import Kind, Page, Rows, Visited
from benchmarks.budgets import Line
from benchmarks.our_web import Visitor
from benchmarks.stage import named_services
from launcher.refusal import Refusal

DATABASE = "postgresql://onbeat:secret@127.0.0.1:5432/onbeat"
BROKER = "amqp://onbeat:secret@127.0.0.1:5672/onbeat"
NOW = datetime(2026, 3, 1, 0, 30, tzinfo=UTC)
EXECUTION = UUID("0195484d-1e00-7000-8000-000000000001")


@pytest.fixture(autouse=True)
def nothing_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "ONBEAT_ENV_FILE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("DATA_DIR", str(tmp_path))


def test_without_services_a_benchmark_says_how_to_start_them() -> None:
    with pytest.raises(Refusal, match=r"needs PostgreSQL and RabbitMQ: start private ones with `\./onbeat services`"):
        named_services()


def test_the_private_services_are_taken_when_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "services.env").write_text(f"DATABASE_URL={DATABASE}\nCELERY_BROKER_URL={BROKER}\n")
    assert named_services().as_env() == {"DATABASE_URL": DATABASE, "REDIS_URL": "", "CELERY_BROKER_URL": BROKER}


def test_what_is_named_is_not_mixed_with_the_private_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "services.env").write_text(f"DATABASE_URL={DATABASE}\nCELERY_BROKER_URL={BROKER}\n")
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:6379/0")
    with pytest.raises(Refusal):
        named_services()


def test_the_cpu_time_of_a_process_is_the_kernels() -> None:
    assert cpu_time.cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)


def test_a_percentile_is_one_of_the_values() -> None:
    assert budgets.percentile([3.0, 1.0, 2.0, 4.0], 50) == 2.0
    assert budgets.percentile(range(1, 101), 95) == 95
    assert budgets.percentile([7.0], 95) == 7.0


def test_a_figure_is_held_against_its_budget_if_it_has_one() -> None:
    lines = [Line("a", "a page", 12.5, "ms", 50), Line("b", "a start", 61, "ms", 60), Line("c", "a load", 3, "per s")]
    assert [line.is_met for line in lines] == [True, False, None]
    heading, *rows = budgets.table([line.as_json() for line in lines]).splitlines()
    assert heading.split() == ["figure", "budget"]
    assert [row.split() for row in rows] == [
        ["a", "page", "12.5", "ms", "≤", "50", "ms", "met"],
        ["a", "start", "61", "ms", "≤", "60", "ms", "MISSED"],
        ["a", "load", "3", "per", "s"],
    ]


def test_a_budget_may_be_a_minimum() -> None:
    few, enough = (Line("a", "a ratio", figure, "", 80, is_minimum=True) for figure in (79.9, 80))
    assert (few.is_met, enough.is_met) == (False, True)
    _, *rows = budgets.table([few.as_json(), enough.as_json()]).splitlines()
    assert [row.split() for row in rows] == [
        ["a", "ratio", "79.9", "≥", "80", "MISSED"],
        ["a", "ratio", "80", "≥", "80", "met"],
    ]


def test_budgets_are_told_above_the_other_figures() -> None:
    figures = {"fires": 20, "lines": [Line("a", "a ratio", 90, "", 80, is_minimum=True).as_json()], "cores": 2}
    assert [row.split() for row in in_words(figures).splitlines()] == [
        ["figure", "budget"],
        ["a", "ratio", "90", "≥", "80", "met"],
        [],
        ["fires", "20"],
        ["cores", "2"],
    ]


@pytest.mark.parametrize("rows", [1, 99, 5_000_000])
def test_a_filled_table_has_as_many_rows_as_asked_for_within_whole_months(rows: int) -> None:
    parts = many_executions.parts(rows, now=NOW)
    assert sum(part.count for part in parts) == rows
    assert all((part.start >= NOW) == part.is_future and part.start < part.end for part in parts)
    assert all(part.start.month == (part.end - timedelta(microseconds=1)).month for part in parts)


@pytest.mark.parametrize("count", [3, many_executions.JOBS, 100_000])
def test_however_many_jobs_there_are_the_first_has_a_fifth_of_the_executions(count: int) -> None:
    jobs = many_executions.Jobs(1, count)
    assert (1 / (count - 1)) ** (1 / jobs.steepness) == pytest.approx(0.21, abs=0.01)


def test_the_steepness_of_the_api_benchmark_stays_as_it_was() -> None:
    assert many_executions.Jobs(1, many_executions.JOBS).steepness == 4


def test_stored_schedules_pile_up_at_midnight_and_none_fires_soon() -> None:
    patterns = list(many_jobs.patterns(NOW))
    assert {pattern.timezone for pattern in patterns} == set(many_jobs.ZONES)
    assert min(pattern.fire_at for pattern in patterns) >= NOW + many_jobs.FIRES_FROM
    piles = Counter(pattern.fire_at for pattern in patterns if pattern.expression == "0 0 * * *")
    assert len(piles) == len(many_jobs.ZONES)
    assert min(piles.values()) > len(patterns) / 50


def test_each_page_that_is_timed_is_one_of_the_admin() -> None:
    pages = admin_pages.pages(
        Rows(1, [2, 3], [EXECUTION], [EXECUTION], [EXECUTION], deep_in_jobs="a", deep_in_executions="b")
    )
    views = {name: resolve(page.addresses[0].partition("?")[0]) for name, page in pages.items()}
    assert {view.app_name for view in views.values()} == {"admin"}
    kinds = {"index": Kind.DASHBOARD, "changelist": Kind.LIST, "change": Kind.DETAIL}
    for name, view in views.items():
        ending = str(view.url_name).rpartition("_")[2]
        assert kinds.get(ending, pages[name].kind) is pages[name].kind, name
    models = {f"{model._meta.app_label}_{model._meta.model_name}" for model in site._registry}
    listed = {str(view.url_name).removesuffix("_changelist") for view in views.values() if "_change" in view.url_name}
    assert {name.removesuffix("_change") for name in listed} <= models


def test_the_slowest_page_of_a_kind_is_held_against_its_budget() -> None:
    dashboard, a_list, a_job = (Page(kind, ["/admin/"]) for kind in Kind)
    visited = [
        Visited("dashboard", dashboard, [0.35] * 19 + [0.9]),
        Visited("jobs", a_list, [0.1]),
        Visited("beats", a_list, [0.31]),
        Visited("job", a_job, [0.3]),
    ]
    assert [(line.name, line.figure, line.budget, line.is_met) for line in admin_pages.lines(visited)] == [
        ("dashboard_p95", 350, 400, True),
        ("list_worst_p95", 310, 300, False),
        ("detail_p95", 300, 300, True),
    ]
    assert "beats" in admin_pages.lines(visited)[1].what


def test_a_page_that_takes_far_too_long_is_not_asked_for_dozens_of_times() -> None:
    page = Page(Kind.LIST, ["/admin/"])
    assert not Visited("jobs", page, [60.0]).has_enough  # one is no measure
    assert Visited("jobs", page, [8.0] * 5).has_enough
    assert not Visited("jobs", page, [0.3] * 39).has_enough


@pytest.fixture
def redirecting_port() -> Iterator[int]:
    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_page_that_sends_its_visitor_elsewhere_is_refused_by_its_name(redirecting_port: int) -> None:
    with pytest.raises(Refusal, match=r"The page 'jobs, page 2' at /admin/\?p=2 was answered with 302"):
        Visitor(redirecting_port, "sessionid=x").get("/admin/?p=2", name="jobs, page 2")
