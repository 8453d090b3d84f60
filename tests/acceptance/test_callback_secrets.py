"""Secrets of callbacks are looked for everywhere after a run: database, broker, logs, API and admin. They are nowhere.

The receiver echoes all that it is sent, in its headers and its body. In every place something that is no secret is
looked for as well, so that nobody can say the search was blind.
"""

import base64
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener, urlopen
from uuid import UUID

import psycopg

from tests.listening import listening
from tests.platform import Platform
from tests.receiver import Receiver, Sent, receiving
from tests.tiers import once_full
from tests.waiting import wait_until

TOKEN = "7b1f9c-kept-by-api/+="
PASSWORD = "open sesame, by command"
MARK = "this-is-no-secret"  # in the payload of every request
_PAGES_AT_MOST = 150


def echo(status: int) -> Any:
    """An act of the receiver: all that it got, as a careless server says it back."""

    def act(connection: Any, sent: Sent) -> None:
        body = json.dumps({"you sent": sent.headers, "body": sent.body.decode()}).encode()
        said = [f"HTTP/1.1 {status} {sent.headers['authorization']}", f"content-length: {len(body)}"]
        said += [f"x-echo-{name}: {value}" for name, value in sent.headers.items()]
        connection.sendall("\r\n".join([*said, "", ""]).encode("latin-1") + body)

    return act


def _no_http(connection: Any, sent: Sent) -> None:
    connection.sendall(f"{sent.headers['authorization']}\r\n\r\n".encode())


ACTS = {
    "well": echo(200),
    "broken": echo(500),
    "no-http": _no_http,
    "denied": echo(401),
    "later": echo(202),
    "gone": echo(410),
}


def _act(connection: Any, sent: Sent) -> None:
    ACTS[sent.headers["onbeat-job"]](connection, sent)


class Api:
    def __init__(self, address: str, key: str) -> None:
        self.address, self._key = address, key

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.text(method, path, body))

    def text(self, method: str, path: str, body: Any = None) -> str:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.address}/api/v1{path}", data, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())


@once_full
def test_secrets_are_found_nowhere_after_a_run(platform: Platform) -> None:
    platform.environment |= {
        "ONBEAT_CALLBACKS_NETWORKS": "127.0.0.0/8",
        "ONBEAT_CALLBACKS_PORTS": "1024-65535",
        "ONBEAT_CALLBACKS_URL": "http://set.below",
        "ONBEAT_ADMIN_PASSWORD": "for-the-test",
    }
    platform.manage("prepare", "--demo", "always")
    web = platform.web()
    platform.environment["ONBEAT_CALLBACKS_URL"] = web
    key = json.loads(platform.manage("api_keys", "create", "--name", "test", "--role", "admin", "--json"))["secret"]
    api = Api(web, key)
    with _eavesdropping(platform) as messages, receiving(_act) as receiver:
        secrets = _kept(api, platform)
        for name in ACTS:
            _make(api, receiver, name)
        platform.beat()
        _wait_for(platform, "QUEUED", len(ACTS))
        messages += _in_folder(platform)
        platform.worker("worker", "-l", "DEBUG", "-c", "1", "-E")
        _wait_for(platform, "RUNNING", 1, "awaited_until IS NOT NULL")
        _tell_back(receiver)
        wait_until(lambda: len(receiver.sent) == len(ACTS) and not _open(platform), what="all have come to an end")
        assert {sent.headers["authorization"] for sent in receiver.sent} == {f"Bearer {TOKEN}"}
        assert all("webhook-signature" in sent.headers and PASSWORD in sent.headers.values() for sent in receiver.sent)
        forms = _forms(secrets, receiver)
        _assert_clean("the answers of the API", _answers(api, platform), forms)
        _assert_clean("the pages of the admin", _pages(web), forms)
    _assert_clean("the messages", "\n".join(messages), forms)
    _assert_clean("the database", _dump(platform), forms)
    logs = "".join(process.output() for process in platform.processes)
    assert "onbeat.http" in logs
    assert [form for form in forms if form in logs] == [], "in the logs"
    others = b"".join(path.read_bytes() for path in _files(platform.folder)).decode("utf-8", "replace")
    assert [form for form in forms if form in others] == [], "in the files"


def _assert_clean(place: str, text: str, forms: list[str]) -> None:
    assert MARK in text, f"nothing was found in {place}, not even what is there"
    found = [(form, text[text.index(form) - 100 : text.index(form) + 100]) for form in forms if form in text]
    assert found == [], f"in {place}"


def _kept(api: Api, platform: Platform) -> list[str]:
    """All secrets; one of each kind came through the API, and one through the command."""
    made = api.call("PUT", "/secrets/signing", {"use": "signing"})["key"]
    api.call("PUT", "/secrets/token", {"use": "header", "value": f"Bearer {TOKEN}"})
    file = platform.folder / "value"
    file.write_text(PASSWORD, encoding="utf-8")
    platform.manage("secrets", "keep", "password", "--use", "header", "--value-from", str(file))
    file.unlink()
    newer = json.loads(platform.manage("secrets", "keep", "signing", "--use", "signing", "--json"))["key"]
    return [made, newer, TOKEN, PASSWORD]


def _make(api: Api, receiver: Receiver, name: str) -> None:
    http = {
        "url": receiver.url(),
        "secret": "signing",
        "headers": {"Authorization": {"secret": "token"}, "X-Login": {"secret": "password"}},
        "asynchronous": True,
    }
    body = {"key": name, "target": {"http": http}, "kwargs": {"said": MARK}, "retry": {"max_attempts": 1}}
    api.call("POST", "/jobs", body)
    api.call("PATCH", f"/jobs/{name}", {"tags": ["changed"]})
    api.call("POST", f"/jobs/{name}/runs")


def _tell_back(receiver: Receiver) -> None:
    """The receiver that answered 202 ends it with an error that tells all that it knows."""
    (sent,) = [sent for sent in receiver.sent if sent.headers["onbeat-job"] == "later"]
    body = json.dumps({"status": "failed", "final": True, "error": f"{sent.headers} {MARK}"[:2000]}).encode()
    url = sent.headers["onbeat-completion-url"]
    with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=30) as answer:
        assert answer.status == 200


def _forms(secrets: list[str], receiver: Receiver) -> list[str]:
    """How they might be written, by us or by who echoes them. Also what is as good as a secret: a signed address."""
    bare = [secret.removeprefix("whsec_") for secret in secrets]
    bare += [sent.headers["onbeat-completion-url"].rpartition("/")[2] for sent in receiver.sent]
    forms = {*bare, *map(quote, bare), *(json.dumps(text)[1:-1] for text in bare)}
    forms |= {base64.b64encode(text.encode()).decode().rstrip("=") for text in bare}
    forms |= {text.encode().hex() for text in bare} | {repr(text)[1:-1] for text in bare}
    return sorted(forms)


# ── Where to look ────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _eavesdropping(platform: Platform) -> Iterator[list[str]]:
    """Every message that goes through RabbitMQ while this lasts, with its headers: work, dead letters and events."""
    heard: list[str] = []
    if not platform.is_full:
        yield heard
        return

    def note(body: str, message: Any) -> None:
        heard.append(f"{body} {message.headers} {message.properties}")

    work, dead_letters = f"{platform.name}.work", f"{platform.name}.dead-letters"
    places = ((work, "direct", "http"), (dead_letters, "direct", "dead-letters"), ("celeryev", "topic", "#"))
    with listening(*places, note=note):
        yield heard


def _in_folder(platform: Platform) -> list[str]:
    """What lies in the folder broker, whose bodies are base64."""
    texts = [] if platform.is_full else [path.read_text() for path in _files(platform.folder / "broker")]
    bodies = [json.loads(text)["body"] for text in texts if text.startswith('{"body"')]
    return [*texts, *(base64.b64decode(body).decode() for body in bodies)]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _dump(platform: Platform) -> str:
    if not platform.is_full:
        with closing(sqlite3.connect(platform.folder / "onbeat.sqlite3", timeout=20)) as database:
            return "\n".join(database.iterdump())
    with psycopg.connect(platform.environment["DATABASE_URL"]) as connection:
        named = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        tables = [
            connection.execute(f'SELECT row_to_json(each)::text FROM "{name}" AS each'.encode()).fetchall()
            for (name,) in named
        ]
    return "\n".join(text for rows in tables for (text,) in rows)


def _answers(api: Api, platform: Platform) -> str:
    paths = ["/jobs", "/executions", "/secrets", "/hosts", "/audit", "/dead-letters/groups", "/dead-letters/messages"]
    paths += ["/workers", "/queues", "/beats"]
    for name in ACTS:
        paths += [f"/jobs/{name}{rest}" for rest in ("", "/versions", "/versions/1", "/diff?since=1")]
    ids = platform.rows("SELECT CAST(id AS VARCHAR(36)) FROM onbeat_execution")
    paths += [f"/executions/{UUID(text)}" for (text,) in ids]
    return "\n".join(api.text("GET", path) for path in paths)


def _pages(web: str) -> str:
    """Every page of the admin that a link leads to."""
    opener = _logged_in(web)
    wanted, seen, texts = [f"{web}/admin/"], set[str](), []
    while wanted and len(seen) < _PAGES_AT_MOST:
        address = wanted.pop(0)
        if address in seen or "/logout" in address:
            continue
        seen.add(address)
        with opener.open(address, timeout=30) as answer:
            text = answer.read().decode()
        texts.append(text)
        links = (urljoin(address, link) for link in re.findall(r'href="([^"#]+)"', text))
        wanted += [link for link in links if link.startswith(f"{web}/admin/") and "?" not in link]
    assert len(seen) > 30
    return "\n".join(texts)


def _logged_in(web: str) -> OpenerDirector:
    jar = CookieJar()
    opener = build_opener(HTTPCookieProcessor(jar))
    opener.open(f"{web}/admin/login/", timeout=30).close()
    token = next(cookie.value for cookie in jar if cookie.name == "csrftoken")
    form = {"username": "admin", "password": "for-the-test", "csrfmiddlewaretoken": token, "next": "/admin/"}
    opener.open(f"{web}/admin/login/", urlencode(form).encode(), timeout=30).close()
    return opener


def _wait_for(platform: Platform, state: str, count: int, where: str = "task = 'onbeat.http'") -> None:
    query = f"SELECT count(*) FROM onbeat_execution WHERE state = '{state}' AND {where}"
    wait_until(lambda: platform.count(query) >= count, what=f"{count} are {state}")


def _open(platform: Platform) -> int:
    ours = "SELECT count(*) FROM onbeat_execution WHERE task = 'onbeat.http'"
    return platform.count(f"{ours} AND state IN ('SCHEDULED', 'QUEUED', 'RUNNING')")
