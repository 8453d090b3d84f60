"""Settings from the environment: a wrong value stops the start with one sentence, and no sentence shows a secret."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from executions import ports
from launcher import env_file
from scheduler_project.env import Environment, address, database, make_folder, read_env_file

SECRET = "hunter2"


def environment(**variables: str) -> Environment:
    return Environment(variables)


# ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("value", "expected"), [("amqp://x", "amqp://x"), ("  x y ", "x y"), ("", "d"), ("   ", "d")])
def test_text_is_stripped_and_a_blank_one_is_the_default(value: str, expected: str) -> None:
    assert environment(NAME=value).text("NAME", "d") == expected


def test_what_is_not_set_is_the_default() -> None:
    nothing = environment()
    assert nothing.text("NAME") == ""
    assert nothing.flag("NAME", default=True) is True
    assert nothing.integer("NAME", 7) == 7
    assert nothing.seconds("NAME", 1.5) == 1.5
    assert nothing.words("NAME", ("a", "b")) == ["a", "b"]


@pytest.mark.parametrize("value", ["1", "true", "Yes", " ON "])
def test_a_flag_may_say_yes(value: str) -> None:
    assert environment(DEBUG=value).flag("DEBUG", default=False) is True


@pytest.mark.parametrize("value", ["0", "False", "no", " OFF "])
def test_a_flag_may_say_no(value: str) -> None:
    assert environment(DEBUG=value).flag("DEBUG", default=True) is False


@pytest.mark.parametrize(("value", "expected"), [("1", 1), (" 42 ", 42), ("", 5)])
def test_an_integer_is_read(value: str, expected: int) -> None:
    assert environment(SIZE=value).integer("SIZE", 5, at_least=1) == expected


@pytest.mark.parametrize(("value", "expected"), [("0.25", 0.25), ("3", 3.0), ("1e3", 1000.0), ("", 5)])
def test_seconds_are_read(value: str, expected: float) -> None:
    assert environment(WAIT=value).seconds("WAIT", 5) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("a", ["a"]), ("a, b,,c ,", ["a", "b", "c"]), (",", []), ("", ["default"])]
)
def test_words_are_separated_by_commas(value: str, expected: list[str]) -> None:
    assert environment(HOSTS=value).words("HOSTS", ["default"]) == expected


@pytest.mark.parametrize("value", ["maybe", "2", "y"])
def test_a_flag_that_is_neither_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        environment(DEBUG=value).flag("DEBUG", default=False)
    assert str(refusal.value) == f"DEBUG must be yes or no, not {value!r}."


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many"])
def test_a_number_that_is_too_small_or_none_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        environment(SIZE=value).integer("SIZE", 5, at_least=1)
    assert str(refusal.value) == f"SIZE must be a whole number of at least 1, not {value!r}."


@pytest.mark.parametrize("value", ["0.5", "0", "-3", "inf", "nan", "soon", "5s"])
def test_seconds_that_are_not_above_the_bound_or_endless_are_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        environment(WAIT=value).seconds("WAIT", 5, above=0.5)
    assert str(refusal.value) == f"WAIT must be a number of seconds above 0.5, not {value!r}."


@pytest.mark.parametrize(("value", "expected"), [("quorum", "quorum"), ("", "classic")])
def test_one_of_some_words_is_read(value: str, expected: str) -> None:
    assert environment(TYPE=value).one_of("TYPE", "classic", ("classic", "quorum")) == expected


def test_a_word_that_is_none_of_them_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"TYPE must be classic or quorum, not 'stream'\."):
        environment(TYPE="stream").one_of("TYPE", "classic", ("classic", "quorum"))


def test_a_word_that_cannot_be_is_refused() -> None:
    found = environment(SIZES="1,two")
    with pytest.raises(ImproperlyConfigured, match=r"SIZES must be numbers, not '1,two'\."):
        found.words("SIZES", [], each=int, allowed="numbers")


def test_a_secret_that_is_too_short_is_refused_and_not_shown() -> None:
    found = environment(KEYS=f"{'x' * 32},short")
    with pytest.raises(ImproperlyConfigured, match="KEYS must be texts of at least 32 characters") as refusal:
        found.secrets("KEYS", at_least=32)
    assert "short" not in str(refusal.value)


def test_one_secret_is_read_and_one_that_is_too_short_is_refused_and_not_shown() -> None:
    assert environment(TOKEN=" long enough ").secret("TOKEN", at_least=11) == "long enough"
    assert environment().secret("TOKEN", at_least=11) == environment(TOKEN=" ").secret("TOKEN", at_least=11) == ""
    with pytest.raises(ImproperlyConfigured) as refusal:
        environment(TOKEN="short").secret("TOKEN", at_least=16)
    assert str(refusal.value) == "TOKEN must be a text of at least 16 characters."


@pytest.mark.parametrize(
    ("value", "host", "found"),
    [
        ("127.0.0.1:9101", "127.0.0.1", [9101]),
        ("0.0.0.0:9101-9103", "0.0.0.0", [9101, 9102, 9103]),
        (" metrics.local:1-1 ", "metrics.local", [1]),
        ("[::1]:65535", "::1", [65535]),
        ("[::]:65534-65535", "::", [65534, 65535]),
    ],
)
def test_ports_are_a_host_with_one_or_a_range(value: str, host: str, found: list[int]) -> None:
    read = environment(ADDRESS=value).ports("ADDRESS")
    assert read == value.strip()
    assert (ports.parsed(read)[0], list(ports.parsed(read)[1])) == (host, found)


def test_no_ports_are_none() -> None:
    assert environment().ports("ADDRESS") == environment(ADDRESS="  ").ports("ADDRESS") == ""


@pytest.mark.parametrize(
    "value",
    [
        *("9101", ":9101", "h:", "h:x", "h:0", "h:65536", "h:-1", "h:9101-x", "h:9102-9101", "h:1-65536", "h:1-2-3"),
        *("h:9_101", "h:9 101", "h:٩", "http://h:9101/", "h"),
    ],
)
def test_what_is_no_ports_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        environment(ADDRESS=value).ports("ADDRESS")
    shown = "host:port or host:first-last, such as 127.0.0.1:9101-9119"
    assert str(refusal.value) == f"ADDRESS must be {shown}, not {value!r}."


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    there = tmp_path / "there.pem"
    there.touch()
    assert environment(CA=str(there)).file("CA") == str(there)
    assert environment().file("CA") == ""
    with pytest.raises(ImproperlyConfigured, match="CA must be a file that can be read"):
        environment(CA=str(tmp_path / "gone.pem")).file("CA")


def test_variables_with_the_prefix_that_nobody_asked_for_are_unknown() -> None:
    found = environment(ONBEAT_B="1", ONBEAT_A="1", ONBEAT_ASKED="1", PATH="/bin")
    found.text("ONBEAT_ASKED")
    found.integer("ONBEAT_NOT_SET", 1)
    assert found.unknown("ONBEAT_") == ["ONBEAT_A", "ONBEAT_B"]


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_env_file_is_read_line_by_line() -> None:
    text = """
    # a comment
    PLAIN=value
    SPACED = around it
    export EXPORTED=yes
    DOUBLE="in quotes "
    SINGLE='in quotes'
    HALF="open
    URL=amqp://u:p@h/?a=b#c
    EMPTY=
    TWICE=first
    TWICE=second
    """
    assert env_file.parse(text, "file") == {
        "PLAIN": "value",
        "SPACED": "around it",
        "EXPORTED": "yes",
        "DOUBLE": "in quotes ",
        "SINGLE": "in quotes",
        "HALF": '"open',
        "URL": "amqp://u:p@h/?a=b#c",
        "EMPTY": "",
        "TWICE": "second",
    }


@pytest.mark.parametrize("line", [SECRET, f"={SECRET}", f"MY NAME={SECRET}", f"my-name={SECRET}", f"export {SECRET}"])
def test_a_line_that_is_no_setting_is_named_by_its_place_and_not_shown(line: str, tmp_path: Path) -> None:
    path = tmp_path / "onbeat.env"
    path.write_text(f"A=1\n\n{line}\n")
    with pytest.raises(ImproperlyConfigured) as refusal:
        read_env_file(path)
    assert str(refusal.value) == f"{path}, line 3: expected NAME=value."


def test_the_process_goes_before_the_named_file_and_that_before_dot_env(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("ONE=dot\nTWO=dot\nTHREE=dot\n")
    named = tmp_path / "services.env"
    named.write_text("ONE=named\nTWO=named\n")
    monkeypatch.setenv("ONBEAT_ENV_FILE", str(named))
    monkeypatch.setenv("ONE", "process")
    found = Environment.of_process(tmp_path)
    assert [found.text(name) for name in ("ONE", "TWO", "THREE")] == ["process", "named", "dot"]


def test_without_files_the_process_alone_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONBEAT_ENV_FILE", raising=False)
    monkeypatch.setenv("ONE", "process")
    assert Environment.of_process(tmp_path).text("ONE") == "process"


def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "missing.env"
    monkeypatch.setenv("ONBEAT_ENV_FILE", str(missing))
    with pytest.raises(ImproperlyConfigured) as refusal:
        Environment.of_process(tmp_path)
    assert str(refusal.value) == (
        f"ONBEAT_ENV_FILE names {missing}, which is not a file. Start the services with `./onbeat services`, "
        "or unset the variable."
    )


@pytest.mark.parametrize("name", [".env", "services.env"])
def test_an_env_file_that_is_not_utf_8_is_refused_without_showing_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(f"PASSWORD={SECRET}ß\n".encode("latin-1"))
    if name == ".env":
        monkeypatch.delenv("ONBEAT_ENV_FILE", raising=False)
    else:
        monkeypatch.setenv("ONBEAT_ENV_FILE", str(path))
    with pytest.raises(ImproperlyConfigured) as refusal:
        Environment.of_process(tmp_path)
    assert str(refusal.value) == f"{path} cannot be read as UTF-8 text."


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    make_folder(tmp_path / "new" / "deep")
    make_folder(tmp_path / "new" / "deep")
    assert (tmp_path / "new" / "deep").is_dir()
    with pytest.raises(ImproperlyConfigured, match=r"set DATA_DIR to a folder that you may write to\.") as refusal:
        make_folder(tmp_path / "file" / "below")
    assert str(tmp_path / "file" / "below") in str(refusal.value)


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_address_is_taken_apart() -> None:
    parts = address("CELERY_BROKER_URL", f"AMQP://guest:{SECRET}@rabbit:5672/vhost", ("amqp", "amqps"))
    assert (parts.scheme, parts.hostname, parts.port, parts.path) == ("amqp", "rabbit", 5672, "/vhost")


@pytest.mark.parametrize(
    ("url", "shown"), [(f"http://u:{SECRET}@h/", "http"), (f"//u:{SECRET}@h/", "no scheme"), (SECRET, "no scheme")]
)
def test_an_address_with_another_scheme_is_refused(url: str, shown: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        address("REDIS_URL", url, ("redis", "rediss"))
    assert str(refusal.value) == f"REDIS_URL must start with redis:// or rediss://, not {shown!r}."


@pytest.mark.parametrize("port", ["0", "65536", "-1", SECRET])
def test_an_address_with_an_impossible_port_is_refused(port: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        address("REDIS_URL", f"redis://u:{SECRET}@h:{port}/0", ("redis",))
    assert str(refusal.value) == "REDIS_URL has a port that is not a number from 1 to 65535."


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_postgresql_url_is_djangos_settings(scheme: str) -> None:
    assert database("DATABASE_URL", f"{scheme}://onbeat:{SECRET}@db.example:6432/jobs") == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "jobs",
        "USER": "onbeat",
        "PASSWORD": SECRET,
        "HOST": "db.example",
        "PORT": "6432",
        "OPTIONS": {},
    }


def test_the_query_of_a_postgresql_url_is_its_options() -> None:
    found = database("DATABASE_URL", "postgresql://h/jobs?sslmode=require&sslrootcert=%2Fetc%2Fca.pem")
    assert found["OPTIONS"] == {"sslmode": "require", "sslrootcert": "/etc/ca.pem"}
    assert found["NAME"] == "jobs"


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("db1,db2", ("db1,db2", "5432,5432")),
        ("db1:5433,db2:5434", ("db1,db2", "5433,5434")),
        ("db1,[::1]:5434,db3", ("db1,::1,db3", "5432,5434,5432")),
    ],
)
def test_several_hosts_are_tried_in_turn(hosts: str, expected: tuple[str, str]) -> None:
    found = database("DATABASE_URL", f"postgresql://me:a%2Cb@{hosts}/onbeat?target_session_attrs=read-write")
    assert (found["HOST"], found["PORT"]) == expected
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("me", "a,b", "onbeat")
    assert found["OPTIONS"] == {"target_session_attrs": "read-write"}


def test_user_password_and_port_may_be_left_out() -> None:
    found = database("DATABASE_URL", "postgresql://localhost/jobs")
    assert (found["USER"], found["PASSWORD"], found["PORT"]) == ("", "", "5432")


def test_percent_escapes_stand_for_the_signs_that_a_url_cannot_hold() -> None:
    found = database("DATABASE_URL", "postgresql://us%40er:p%40s%2Fs%3A%25%23%5B@h/my%20jobs")
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("us@er", "p@s/s:%#[", "my jobs")


@pytest.mark.parametrize(
    ("url", "path"),
    [("sqlite:///var/db.sqlite3", "/var/db.sqlite3"), ("sqlite:///with%20space/%23.db", "/with space/#.db")],
)
def test_a_sqlite_url_names_a_file(url: str, path: str) -> None:
    assert database("DATABASE_URL", url) == {"ENGINE": "django.db.backends.sqlite3", "NAME": path}


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite:", "must name a file: sqlite:///absolute/path/to/db.sqlite3."),
        ("sqlite:///", "must name a file: sqlite:///absolute/path/to/db.sqlite3."),
        ("sqlite:db.sqlite3", "must name a file: sqlite:///absolute/path/to/db.sqlite3."),
        ("sqlite://var/x", "must name a file: sqlite:///absolute/path/to/db.sqlite3."),
        ("sqlite://var/lib/db.sqlite3", "must name a file: sqlite:///absolute/path/to/db.sqlite3."),
        (
            f"postgresql://u:{SECRET}@h",
            "must name a host and a database: postgresql://user:password@host:5432/name.",
        ),
        (
            f"postgresql://u:{SECRET}@/jobs",
            "must name a host and a database: postgresql://user:password@host:5432/name.",
        ),
        (f"postgresql://u:{SECRET}@h:x/jobs", "has a port that is not a number from 1 to 65535."),
        (f"postgresql://u:{SECRET}/2@h/jobs", "has a port that is not a number from 1 to 65535."),
        (f"postgresql://u:{SECRET}@h:0/jobs", "has a port that is not a number from 1 to 65535."),
        (f"mysql://u:{SECRET}@h/jobs", "must start with postgresql:// or postgres:// or sqlite://, not 'mysql'."),
        ("", "must start with postgresql:// or postgres:// or sqlite://, not 'no scheme'."),
    ],
)
def test_a_database_url_that_cannot_work_is_refused_without_showing_it(url: str, sentence: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        database("DATABASE_URL", url)
    assert str(refusal.value) == f"DATABASE_URL {sentence}"
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("password", ["hunter℀2", "hunter[2", "hunter]2"])
def test_a_url_that_cannot_be_taken_apart_is_refused_without_showing_it(password: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        database("DATABASE_URL", f"postgresql://u:{password}@host/db")
    assert str(refusal.value) == "DATABASE_URL is no address; write special characters in it as %XX."
    assert refusal.value.__suppress_context__  # a traceback would quote the parser, and that the password
