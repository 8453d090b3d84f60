"""The check while somebody types a schedule: the sentence, the next fires, or what is wrong."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client

from access.roles import Role
from jobs.models import Schedule
from jobs.recurrence import Cron, Every
from tests.making import a_job
from tests.tiers import once_embedded
from tests.visiting import Page, a_visitor

pytestmark = [pytest.mark.django_db, once_embedded]
CHECK = "/admin/schedule-check/"


@pytest.fixture
def client() -> Client:
    return a_visitor(Role.VIEWER)


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """In winter, the day before the clocks of Berlin go forward."""
    now = datetime(2027, 3, 27, 12, 0, tzinfo=UTC)
    monkeypatch.setattr("console.jobs.checks.database_now", lambda: now)
    return now


def told(client: Client, **says: str) -> str:
    response = client.get(f"{CHECK}?{urlencode(says)}")
    assert response.status_code == 200
    assert "<html" not in response.content.decode()  # a part of a page
    return Page(response.content.decode()).text


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ({"kind": "cron", "cron": "0 9 * * 1-5"}, ["Every weekday at 09:00, UTC", "Mon 2027-03-29 09:00:00"]),
        ({"kind": "every", "every": "90"}, ["Every 90 seconds", "Sat 2027-03-27 12:01:30", "in 1 min 30 s"]),
        ({"kind": "once", "once_at": "2027-04-01T21:00", "viewer_zone": "Asia/Tokyo"}, ["Thu 2027-04-01 12:00:00"]),
        ({"kind": "none"}, ["Only when asked"]),
        ({"kind": ""}, ["Only when asked"]),
        ({"kind": "cron", "cron": ""}, ["Type a schedule"]),
        ({"kind": "once"}, ["Type a schedule"]),
    ],
)
def test_a_good_schedule_is_said_in_words_with_its_next_fires(
    client: Client, noon: datetime, says: dict[str, str], expected: list[str]
) -> None:
    text = told(client, **says)
    assert [part for part in expected if part not in text] == [], text


def test_a_night_on_which_the_clocks_skip_its_time_is_remarked(client: Client, noon: datetime) -> None:
    text = told(client, kind="cron", cron="30 2 * * *", timezone="Europe/Berlin")
    assert "Sun 2027-03-28 03:00:00 moved: the clocks skip its own time that night 2027-03-28 01:00:00" in text
    assert text.count("moved") == 1


@pytest.mark.parametrize(("said", "fires"), [("", 5), ("3", 3), ("100", 5)])
def test_a_few_fires_are_shown_and_no_more_than_there_are(
    client: Client, noon: datetime, said: str, fires: int
) -> None:
    response = client.get(f"{CHECK}?{urlencode({'kind': 'every', 'every': '60', 'max_fires': said})}")
    assert len(response.context["fires"]) == fires


@pytest.mark.parametrize(("kind", "zone"), [("cron", "Europe/Berlin"), ("every", "UTC"), ("once", "UTC")])
def test_fires_are_told_in_the_zone_that_the_heading_names(
    client: Client, noon: datetime, kind: str, zone: str
) -> None:
    """Also if a zone still stands in the field of another kind."""
    says = {"cron": "0 12 * * *", "every": "60", "once_at": "2027-04-01T12:00", "timezone": "Europe/Berlin"}
    context = client.get(f"{CHECK}?{urlencode({'kind': kind, **says})}").context
    assert context["zone"] == zone
    assert {str(fire.local.tzinfo) for fire in context["fires"]} == {zone}


def test_an_h_is_spread_by_the_key_of_the_job(client: Client, noon: datetime) -> None:
    texts = {key: told(client, kind="cron", cron="H H * * *", key=key) for key in ("a", "b", "a.b/c")}
    assert len(set(texts.values())) == 3
    assert told(client, kind="cron", cron="H H * * *", key="a") == texts["a"]


def test_the_schedule_of_a_job_that_is_changed_is_looked_at_as_it_will_be_stored(
    client: Client, noon: datetime
) -> None:
    """Its intervals go on from their anchor, and an H is spread by its key, which the form cannot change."""
    job = a_job(now=noon, key="spread", schedule=Every(seconds=180, anchor=noon - timedelta(seconds=50)))
    every = told(client, kind="every", every="180", job=str(job.pk))
    assert "Sat 2027-03-27 12:02:10" in every
    hashed = {"kind": "cron", "cron": "H H * * *"}
    assert told(client, **hashed, job=str(job.pk)) == told(client, **hashed, key="spread")


@pytest.mark.parametrize(("every", "most", "fires"), [("180", "4", 1), ("180", "3", 3), ("60", "4", 4), ("180", "", 5)])
def test_of_a_limit_that_stays_as_it_is_those_that_are_left_are_shown(
    client: Client, noon: datetime, every: str, most: str, fires: int
) -> None:
    job = a_job(now=noon, schedule=Every(seconds=180, anchor=noon), max_fires=4)
    Schedule.objects.filter(job=job).update(fires_left=1)
    says = {"kind": "every", "every": every, "max_fires": most, "job": job.pk}
    assert len(client.get(f"{CHECK}?{urlencode(says)}").context["fires"]) == fires


def test_a_schedule_that_cannot_be_read_is_replaced_by_one_that_can(client: Client, noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("0 3 * * *"), max_fires=4)
    Schedule.objects.filter(job=job).update(timezone="Nowhere/Land")
    assert "Every day at 03:00, UTC" in told(client, kind="cron", cron="0 3 * * *", max_fires="4", job=str(job.pk))


@pytest.mark.parametrize("job", ["7", "x", "-1", "9" * 30])
def test_a_job_that_is_not_there_is_not_found(client: Client, job: str) -> None:
    assert client.get(f"{CHECK}?{urlencode({'kind': 'none', 'job': job})}").status_code == 404


def test_steps_that_do_not_divide_their_range_are_warned_of(client: Client, noon: datetime) -> None:
    page = client.get(f"{CHECK}?{urlencode({'kind': 'cron', 'cron': '*/7 * * * *'})}")
    assert len(page.context["warnings"]) == 1


@pytest.mark.parametrize(
    ("says", "wrong"),
    [
        ({"kind": "cron", "cron": "61 * * * *"}, "61"),
        ({"kind": "cron", "cron": "0 0 31 2 *"}, ""),
        ({"kind": "cron", "cron": "* * * * *", "timezone": "Europe/Berln"}, "did you mean 'Europe/Berlin'"),
        ({"kind": "cron", "cron": "* * * * *", "start": "soon"}, "is no date and time"),
        ({"kind": "cron", "cron": "* * * * *", "start": "2030-01-01T00:00", "end": "2029-01-01T00:00"}, ""),
        ({"kind": "every", "every": "x"}, "Enter a whole number."),
        ({"kind": "every", "every": "-5"}, ""),
        ({"kind": "every", "every": "9" * 30}, ""),
        ({"kind": "every", "every": "60", "max_fires": "0"}, "greater than or equal to 1"),
        ({"kind": "once", "once_at": "2020-01-01T00:00"}, "It never fires"),
        ({"kind": "once", "once_at": "2027-03-28T02:30", "viewer_zone": "Europe/Berlin"}, "skip"),
        ({"kind": "once", "once_at": "0001-01-01T00:00+14:00"}, "is no date and time"),
        ({"kind": "cron", "cron": "* * * * *\x00"}, "Null characters are not allowed."),
        ({"kind": "cron", "cron": "9" * 5000}, ""),
        ({"kind": "every", "every": "60", "start": "9999-12-31T23:59"}, ""),
        ({"kind": "once", "once_at": "9999-12-31T23:59", "viewer_zone": "America/New_York"}, ""),
    ],
)
def test_what_is_wrong_is_said_in_the_place_of_the_fires(
    client: Client, noon: datetime, says: dict[str, str], wrong: str
) -> None:
    response = client.get(f"{CHECK}?{urlencode(says)}")
    assert response.status_code == 200
    page = response.content.decode()
    assert 'role="alert"' in page
    assert wrong in Page(page).text


def test_whatever_is_typed_never_breaks_the_check(client: Client) -> None:
    moments = ["", "9999-12-31T23:59:59", "0001-01-01T00:00", "9999-12-31T23:59-12:00"]
    zones = ["Pacific/Kiritimati", "Pacific/Niue", "../etc/passwd", "\u202e"]
    for kind in ("cron", "every", "once"):
        for moment in moments:
            for zone in zones:
                says = {"kind": kind, "cron": "0 3 * * *", "every": "60", "once_at": moment, "start": moment}
                told(client, **says, timezone=zone, viewer_zone=zone, end=moment)


def test_it_is_asked_by_get_alone(client: Client) -> None:
    assert client.post(CHECK, {"kind": "none"}).status_code == 405
