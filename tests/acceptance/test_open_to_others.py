"""The web process for others than this machine: what it asks of them, and what `check --deploy` says before."""

import http.client
import os
import re
import subprocess
import sys
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path

import pytest

from tests.platform import ROOT, Platform

pytestmark = pytest.mark.embedded

HOST = "onbeat.example.org"
# As the README has it.
DOCUMENTED = {
    "DATABASE_URL": "postgresql://onbeat:password@db.example.org:5432/onbeat",
    "REDIS_URL": "redis://:password@redis.example.org:6379/0",
    "CELERY_BROKER_URL": "amqp://onbeat:password@rabbit.example.org:5672/onbeat",
    "SECRET_KEY": "yL0m3nq8X-2bWc7RkfJvT9sZpAhUeDgQ1oViN4tEwMxS5aB6rKzCjHdFuP_yG0lI",
    "ALLOWED_HOSTS": HOST,
    "ONBEAT_API_PROXIES": "1",
}


class Web:
    """Asked as a proxy before it asks."""

    def __init__(self, address: str) -> None:
        self._address = address.removeprefix("http://")

    def ask(self, path: str, *, body: str | None = None, host: str = HOST, **headers: str) -> tuple[int, Message, str]:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        said = {"Host": host} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            said |= {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            connection.request("GET" if body is None else "POST", path, body, said)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def by_https(self, path: str, **more: str) -> tuple[int, Message, str]:
        return self.ask(path, X_Forwarded_Proto="https", **more)


@pytest.fixture(scope="module")
def webs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Web]]:
    """Two web processes of one installation, without Redis."""
    with Platform(tmp_path_factory.mktemp("open"), is_full=False) as platform:
        platform.migrate()
        make = (
            "from django.contrib.auth.models import User; User.objects.create_superuser('ada', password='lovelace-1')"
        )
        platform.manage("shell", "-c", make)
        # To start they ask for their health, by 127.0.0.1 and in plain http.
        yield [Web(platform.web(name, ALLOWED_HOSTS=HOST, ONBEAT_API_PROXIES="1")) for name in ("one", "other")]


@pytest.fixture
def web(webs: list[Web]) -> Web:
    return webs[0]


def test_who_comes_in_plain_http_is_sent_to_https(web: Web) -> None:
    for path in ("/admin/login/", "/api/v1/jobs", "/healthy", "/metrics/x"):
        status, headers, _ = web.ask(path)
        assert (status, headers["Location"]) == (301, f"https://{HOST}{path}")


def test_another_name_is_refused(web: Web) -> None:
    assert web.by_https("/admin/login/", host="evil.example.org")[0] == 400
    assert web.by_https("/admin/login/", host="127.0.0.1")[0] == 400


@pytest.mark.parametrize("host", ["10.2.3.4:8000", "web:8000", "not_a_name!", HOST])
def test_probes_are_answered_by_any_name_and_in_plain_http(web: Web, host: str) -> None:
    assert web.ask("/health/live", host=host)[0] == 200
    status, _, body = web.ask("/health/ready", host=host)
    assert status == 503
    assert '"not ready"' in body
    assert web.ask("/metrics", host=host)[0] not in (301, 302, 400)


def test_what_a_browser_is_told(web: Web) -> None:
    status, headers, _ = web.by_https("/admin/login/")
    assert status == 200
    assert headers["Strict-Transport-Security"] == f"max-age={365 * 24 * 3600}"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]
    assert "Strict-Transport-Security" not in web.ask("/health/live")[1]


@pytest.mark.parametrize(
    ("path", "scripts"),
    [
        ("/admin/login/", "'self' 'unsafe-eval'"),
        ("/api/docs", "'self'"),
        ("/api/v1/jobs", "'self'"),
        ("/nowhere", "'self'"),
        ("/health/live", "'self'"),
        ("/static/console/console.js", "'self'"),
    ],
)
def test_each_answer_has_a_policy(web: Web, path: str, scripts: str) -> None:
    policy = web.by_https(path)[1]["Content-Security-Policy"]
    directives = dict(each.split(" ", 1) for each in policy.split("; "))
    assert directives["script-src"] == scripts
    assert directives["default-src"] == directives["frame-ancestors"] == directives["object-src"] == "'none'"
    assert directives["connect-src"] == directives["form-action"] == "'self'"


def test_a_person_logs_in_by_https_with_cookies_that_no_script_and_no_plain_line_gets(web: Web) -> None:
    form, told = a_form(web, "ada", "lovelace-1")
    assert re.search(r"; Secure\b", told.pop("whole cookie"))
    status, headers, body = web.by_https("/admin/login/", body=form, **told)
    assert (status, headers["Location"]) == (302, "/admin/"), body
    cookies = {cookie.split("=")[0]: set(cookie.split("; ")) for cookie in headers.get_all("Set-Cookie") or []}
    assert {"Secure", "HttpOnly", "SameSite=Lax", f"Max-Age={12 * 3600}"} <= cookies["sessionid"]
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/admin/login/"} <= cookies["onbeat_known"]
    (session,) = (word for word in cookies["sessionid"] if word.startswith("sessionid="))
    assert web.by_https("/admin/", Cookie=session)[0] == 200
    elsewhere = told | {"Origin": "https://evil.example.org"}
    assert web.by_https("/admin/login/", body=form, **elsewhere)[0] == 403


def test_web_processes_count_wrong_passwords_together(webs: list[Web]) -> None:
    form, told = a_form(webs[0], "ada", "a guess")
    told.pop("whole cookie")

    def guess(number: int) -> int:
        return webs[number % 2].by_https("/admin/login/", body=form, X_Forwarded_For="198.51.100.7", **told)[0]

    with ThreadPoolExecutor(6) as pool:
        codes = Counter(pool.map(guess, range(24)))
    assert codes == {200: 10, 429: 14}
    assert webs[1].by_https("/admin/login/", body=form, X_Forwarded_For="198.51.100.8", **told)[0] == 200


def a_form(web: Web, user: str, password: str) -> tuple[str, dict[str, str]]:
    """The form of the login, filled in, and what a browser says with it."""
    _, headers, page = web.by_https("/admin/login/")
    (csrf,) = headers.get_all("Set-Cookie") or []
    (token,) = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    form = {"csrfmiddlewaretoken": token, "username": user, "password": password, "next": "/admin/"}
    told = {"Cookie": csrf.split(";")[0], "Origin": f"https://{HOST}", "Referer": f"https://{HOST}/admin/login/"}
    return urllib.parse.urlencode(form), told | {"whole cookie": csrf}


def check(folder: Path, **environment: str) -> tuple[int, str]:
    """What `manage.py check --deploy` says in a full set-up; nothing connects."""
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(folder), **DOCUMENTED, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_with_the_documented_variables_nothing_is_amiss(tmp_path: Path) -> None:
    assert check(tmp_path) == (0, "System check identified no issues (2 silenced).\n")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SECRET_KEY": ""}, {"scheduler_project.E001"}),
        ({"SECRET_KEY": "a-long-random-text"}, {"scheduler_project.E003", "security.W009"}),
        ({"SECRET_KEY": f"django-insecure-{'abcdefghij' * 6}"}, {"scheduler_project.E003", "security.W009"}),
        ({"DEBUG": "yes"}, {"scheduler_project.E004", "scheduler_project.W001", "security.W018"}),
        ({"ALLOWED_HOSTS": "*"}, {"scheduler_project.W003"}),
        (
            {"HTTPS_ONLY": "no"},
            {"scheduler_project.W004", "security.W004", "security.W008", "security.W012", "security.W016"},
        ),
        ({"ONBEAT_API_PROXIES": "0"}, {"scheduler_project.W005"}),
        (
            {"ALLOWED_HOSTS": ""},
            {"scheduler_project.W006", "security.W004", "security.W008", "security.W012", "security.W016"},
        ),
        ({"HSTS_DAYS": "0"}, {"security.W004"}),
        ({"ONBEAT_CONSOLE_FLOWER_URL": "https://a:b@flower.example.org"}, {"scheduler_project.E005"}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_is_dangerous_is_told(environment: dict[str, str], expected: set[str], tmp_path: Path) -> None:
    code, said = check(tmp_path, **environment)
    assert set(re.findall(r"\(([a-z_]+\.[EW]\d{3})\)", said)) == expected
    assert code == 1
