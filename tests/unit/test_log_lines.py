"""How records become lines: of our own events, of a handler's logger, of Django and of Celery."""

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import structlog
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from executions import events
from executions.log_lines import JsonLines, TextLines, formatter
from tests.anything import ANYTHING, TEXT

NAMES = {"job": "report", "execution": UUID(int=7), "attempt": 2, "request": "asked-1"}
FOREIGN = ["billing.tasks", "django.request", "celery.worker", "kombu", "gunicorn.error"]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[logging.Formatter], Callable[[], str]]]:
    """What all loggers write meanwhile, in the form asked for."""
    handler = logging.StreamHandler(io.StringIO())
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)

    def in_form(form: logging.Formatter) -> Callable[[], str]:
        handler.setFormatter(form)
        return handler.stream.getvalue  # type: ignore[no-any-return]

    yield in_form
    root.removeHandler(handler)
    root.setLevel(before)


def said(form: logging.Formatter, message: object, *args: object, **more: Any) -> str:
    """By a logger of somebody else's."""
    return form.format(logging.LogRecord("billing", logging.INFO, __file__, 1, message, args, more.get("exc_info")))


def failure(text: str) -> Any:
    try:
        raise ValueError(text)
    except ValueError:
        return sys.exc_info()


# ── Which form ───────────────────────────────────────────────────────────────────────────────────────────────────


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("kind", "error_stream", "form"),
    [
        ("auto", Terminal(), TextLines),
        ("auto", io.StringIO(), JsonLines),
        ("text", io.StringIO(), TextLines),
        ("json", Terminal(), JsonLines),
    ],
)
def test_lines_are_for_people_on_a_terminal_and_json_elsewhere_unless_said(
    kind: str, error_stream: io.StringIO, form: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", error_stream)
    assert type(formatter(kind)) is form


def test_the_platform_writes_all_its_lines_so() -> None:
    assert settings.LOGGING["formatters"]["lines"]["()"] == "executions.log_lines.formatter"
    assert {each["formatter"] for each in settings.LOGGING["handlers"].values()} == {"lines"}


# ── Our own events ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_is_a_line_of_text(written: Any) -> None:
    lines = written(TextLines())
    with events.about(**NAMES):
        events.emit("succeeded", worker="w1", reason="two\nlines")
    assert lines().endswith(
        f" INFO    succeeded  worker=w1 reason='two\\nlines' job=report execution={UUID(int=7)} attempt=2 "
        "request=asked-1\n"
    )
    assert lines().count("\n") == 1


def test_an_event_is_a_json_object_with_its_fields(written: Any) -> None:
    lines = written(JsonLines())
    with events.about(job="report", request="asked-1"):
        events.warn("failed for good", attempt=2, at_noon=datetime(2026, 6, 15, 12, tzinfo=UTC), error="two\nlines")
    line = json.loads(lines())
    assert datetime.fromisoformat(line.pop("at")).tzinfo is not None
    assert line == {
        "level": "warning",
        "event": "failed for good",
        "logger": "onbeat",
        "attempt": 2,
        "at_noon": "2026-06-15 12:00:00+00:00",
        "error": "two\nlines",
        "job": "report",
        "request": "asked-1",
    }
    assert list(json.loads(lines()))[:3] == ["at", "level", "event"]


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_payloads_and_secrets_of_an_event_are_not_shown(form: logging.Formatter, written: Any) -> None:
    lines = written(form)
    events.warn("refused", kwargs={"card": "4111-1111"}, error="amqp://me:hunter2@rabbit is away", body=b"4111-1111")
    assert "4111" not in lines()
    assert "hunter2" not in lines()
    assert "rabbit is away" in lines()


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_what_others_bound_to_the_thread_is_shown_without_secrets(form: logging.Formatter, written: Any) -> None:
    lines = written(form)
    with structlog.contextvars.bound_contextvars(api_key="hunter2", peer="amqp://me:hunter2@rabbit", tenant=7):
        logging.getLogger("billing").info("paid")
        events.emit("succeeded")
    assert "hunter2" not in lines()
    assert lines().count("rabbit") == lines().count("tenant") == 2


def test_of_two_that_name_the_same_the_event_is_right(written: Any) -> None:
    lines = written(JsonLines())
    with events.about(attempt=1):
        events.emit("succeeded", attempt=2)
    assert json.loads(lines())["attempt"] == 2


# ── Records of others ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_say_meanwhile_carries_the_names_as_text(name: str, written: Any) -> None:
    lines = written(TextLines())
    with events.about(**NAMES):
        logging.getLogger(name).warning("paid %d invoices", 3)
    assert lines().endswith(f" WARNING paid 3 invoices  job=report execution={UUID(int=7)} attempt=2 request=asked-1\n")


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_say_meanwhile_carries_the_names_as_json(name: str, written: Any) -> None:
    lines = written(JsonLines())
    with events.about(**NAMES):
        logging.getLogger(name).warning("paid %d invoices", 3)
    line = json.loads(lines())
    assert line.pop("at")
    names = {"job": "report", "execution": str(UUID(int=7)), "attempt": 2, "request": "asked-1"}
    assert line == {"level": "warning", "event": "paid 3 invoices", "logger": name, **names}


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_what_is_said_afterwards_carries_no_names(form: logging.Formatter) -> None:
    with events.about(job="report"), events.about(job="other", attempt=1):
        pass
    assert "report" not in said(form, "free again")
    with events.about(job="report"):
        with pytest.raises(ValueError, match="broken"), events.about(job="inner"):
            raise ValueError("broken")
        assert "job" in said(form, "within")
        assert "report" in said(form, "within")


def test_a_handler_that_uses_structlog_itself_is_heard_and_carries_the_names(written: Any) -> None:
    lines = written(JsonLines())
    own = structlog.wrap_logger(
        logging.getLogger("billing"),
        processors=[structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    with events.about(job="report"):
        own.info("paid", invoices=3, password="hunter2")
    line = json.loads(lines())
    assert (line["event"], line["invoices"], line["job"], line["level"]) == ("paid", 3, "report", "info")
    assert "hunter2" not in lines()


def test_the_status_of_a_request_is_a_field_of_its_own() -> None:
    record = logging.LogRecord("django.request", logging.ERROR, __file__, 1, "%s: %s", ("Not Found", "/x"), None)
    record.status_code = 404
    record.request = object()
    line = json.loads(JsonLines().format(record))
    assert (line["event"], line["status_code"]) == ("Not Found: /x", 404)
    assert "request" not in line


@pytest.mark.parametrize(
    "text", ["two\nlines", "a\r\nreturn", "\x1b[31mred", "a\x00b", "a\u2028b", "a\x85b", "half \ud83d", "\n"]
)
def test_a_record_is_one_line_whatever_it_holds(text: str) -> None:
    for line in (said(TextLines(), text), said(TextLines(), "%s", text), said(JsonLines(), text)):
        assert len(line.splitlines()) == 1
        line.encode("utf-8")
    assert json.loads(said(JsonLines(), text))["event"] == text
    assert "\x1b" not in said(TextLines(), text)


def test_readable_text_stays_readable_on_a_terminal() -> None:
    assert said(TextLines(), "Jürgen ✓\tπ 日本").endswith("Jürgen ✓\tπ 日本")


def test_a_traceback_is_lines_on_a_terminal_and_a_field_in_json_both_without_secrets() -> None:
    text = said(TextLines(), "it failed", exc_info=failure("amqp://me:hunter2@rabbit is away"))
    assert text.splitlines()[1] == "Traceback (most recent call last):"
    assert text.endswith("ValueError: amqp://[redacted]@rabbit is away")
    line = json.loads(said(JsonLines(), "it failed", exc_info=failure("password=hunter2")))
    assert line["event"] == "it failed"
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("ValueError: password=[redacted]")


def test_one_form_leaves_the_record_to_the_other_as_it_was() -> None:
    record = logging.LogRecord("billing", logging.INFO, __file__, 1, "paid %s", ("all",), failure("x"))
    first = TextLines().format(record).split(" ", 1)[1]
    assert json.loads(JsonLines().format(record))["event"] == "paid all"
    assert TextLines().format(record).split(" ", 1)[1] == first


@given(TEXT, ANYTHING, st.dictionaries(TEXT.filter(lambda name: name.isidentifier()), ANYTHING, max_size=3))
def test_any_line_of_json_can_be_read_and_is_one(text: str, value: object, names: dict[str, object]) -> None:
    form = JsonLines()
    with events.about(**names):
        lines = [said(form, text), said(form, "%s", (value,)), said(form, value)]
    own = logging.LogRecord("onbeat", logging.INFO, __file__, 1, "ticked", (), None)
    setattr(own, events.FIELDS, {**names, "value": value})
    setattr(own, events.EVENT, "ticked")
    for line in (*lines, form.format(own)):
        assert len(line.splitlines()) == 1
        line.encode("ascii")
        assert isinstance(json.loads(line, parse_constant=pytest.fail), dict)
