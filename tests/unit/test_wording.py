"""Schedules in words: the sentences, and that none of them lies."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from zoneinfo import available_timezones

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobs import dst
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidSchedule
from jobs.wording import in_words
from tests.unit.fire_times import utc

NO_ZONES = ("localtime", "posixrules", "Factory", "posix/", "right/")

# ── The sentences ────────────────────────────────────────────────────────────────────────────────────────────────

SENTENCES = {
    # Around the clock
    "* * * * *": "Every minute",
    "*/5 * * * *": "Every 5 minutes",
    "0,15,30,45 * * * *": "Every 15 minutes",
    "2-59/5 * * * *": "Every 5 minutes starting at minute 2",
    "7,37 * * * *": "Every 30 minutes starting at minute 7",
    "* * * * * *": "Every second",
    "*/5 * * * * *": "Every 5 seconds",
    "3-59/10 * * * * *": "Every 10 seconds starting at second 3",
    "0 * * * * *": "Every minute",
    "5 * * * * *": "Every minute at second 5",
    "5,20 * * * * *": "Every minute at seconds 5 and 20",
    "30 */5 * * * *": "Every 5 minutes starting at minute 0, second 30",
    "30 5 * * * *": "Every hour at minute 5, second 30",
    "0 * * * *": "Every hour",
    "@hourly": "Every hour",
    "30 * * * *": "Every hour at minute 30",
    "0 */2 * * *": "Every 2 hours starting at 00:00, UTC",
    "15 1-23/2 * * *": "Every 2 hours starting at 01:15, UTC",
    "0 */6 * * *": "Every 6 hours starting at 00:00, UTC",
    # Steps that do not come round
    "*/45 * * * *": "Every hour at minutes 0 and 45",
    "*/7 * * * *": "Every hour at minutes 0, 7, 14 … 56",
    "10-20 * * * *": "Every hour at minutes 10 to 20",
    "15 */7 * * *": "Every day at 00:15, 07:15, 14:15 and 21:15, UTC",
    "0 */5 * * *": "Every day at 00:00, 05:00, 10:00, 15:00 and 20:00, UTC",
    "0 0,8,17 * * *": "Every day at 00:00, 08:00 and 17:00, UTC",
    "0 */8 * * *": "Every 8 hours starting at 00:00, UTC",
    "* * 0-23/2 * * *": "Every second of every minute of hours 0, 2, 4 … 22, UTC",
    # Times of a day
    "0 0 * * *": "Every day at 00:00, UTC",
    "@daily": "Every day at 00:00, UTC",
    "0 */12 * * *": "Every day at 00:00 and 12:00, UTC",
    "0 9,17 * * *": "Every day at 09:00 and 17:00, UTC",
    "0,45 9 * * *": "Every day at 09:00 and 09:45, UTC",
    "15 30 9 * * *": "Every day at 09:30:15, UTC",
    # Parts of a day
    "0 9-17 * * *": "Every hour from 09:00 to 17:00, UTC",
    "0 0-20/2 * * *": "Every 2 hours from 00:00 to 20:00, UTC",
    "* 9 * * *": "Every minute from 09:00 to 09:59, UTC",
    "0-29 9 * * *": "Every minute from 09:00 to 09:29, UTC",
    "*/7 9 * * *": "Every 7 minutes from 09:00 to 09:56, UTC",
    "*/10 0 9 * * *": "Every 10 seconds from 09:00:00 to 09:00:50, UTC",
    "*/15 9-17 * * mon-fri": "Every 15 minutes from 09:00 to 17:45 on weekdays, UTC",
    "*/30 9-11,14-16 * * *": "Every 30 minutes from 09:00 to 11:30 and from 14:00 to 16:30, UTC",
    # Over midnight only where the day after is like the day before
    "0 22-6 * * *": "Every hour from 22:00 to 06:00, UTC",
    "0 22-6 * * 5": "Every hour from 00:00 to 06:00 and from 22:00 to 23:00 on Fridays, UTC",
    # Field by field
    "*/5 */2 * * *": "Every day at minutes 0, 5, 10 … 55 of hours 0, 2, 4 … 22, UTC",
    "* */2 * * *": "Every minute of hours 0, 2, 4 … 22, UTC",
    "*/45 9-17 * * *": "Every day at minutes 0 and 45 of hours 9 to 17, UTC",
    "5,20 */7 */2 * * *": "Every day at seconds 5 and 20 of minutes 0, 7, 14 … 56 of hours 0, 2, 4 … 22, UTC",
    "1-3,9,11,13,22,26,40,48,59 * * * *": "Every hour at minutes 1 to 3, 9, 11, 13, 22 and 4 more",
    "9,11,13,22,26,40-49,59 * * * *": "Every hour at minutes 9, 11, 13, 22, 26 and 11 more",
    # Longer than anybody reads
    "1,7,20,31,44,52 3,14,15,26,41,58 1,4,9,13,17,22 3-5,9,14,20,27 1,2,4,5,7,8 2,4,6": "In January, February, April, "
    "May, July and August on the 3rd to 5th, 9th, 14th, 20th and 27th and on every Tuesday, Thursday and Saturday at "
    "01:03:01 and 215 more times of the day, UTC",
    "1,7,20,31,44 3,14,15,26,41 1,4,9,13 3-5,9,14,20,27,L 1,2,4,5,7,8 2,4,6,1#1,1#3,3#2,3#4,5#2,5#5,0#1": "At the "
    "times of 1,7,20,31,44 3,14,15,26,41 1,4,9,13 3-5,9,14,20,27,L 1,2,4,5,7,8 2,4,6,1#1,1#3,3#2,3#4,5#2,5#5,0#1, UTC",
    # Weekdays
    "0 9 * * 1-5": "Every weekday at 09:00, UTC",
    "0 9 * * 1": "Every Monday at 09:00, UTC",
    "0 9 * * 7": "Every Sunday at 09:00, UTC",
    "0 9 * * sat,sun": "Every Saturday and Sunday at 09:00, UTC",
    "0 9 * * 1,3,5": "Every Monday, Wednesday and Friday at 09:00, UTC",
    "0 9 * * 1-6": "Every day except Sunday at 09:00, UTC",
    "0 9 * * 0-4": "Every day except Friday and Saturday at 09:00, UTC",
    "*/10 * * * 1,4": "Every 10 minutes on Mondays and Thursdays, UTC",
    "*/10 * * * 1-6": "Every 10 minutes on every day except Sunday, UTC",
    "0 9 * * 0-6": "Every day at 09:00, UTC",
    "0 9 * 8 1-5": "Every weekday in August at 09:00, UTC",
    # Weekdays by their place in the month
    "0 9 * * 5#3": "On the third Friday of every month at 09:00, UTC",
    "0 9 * * 5L": "On the last Friday of every month at 09:00, UTC",
    "0 9 * * 5#5": "On the fifth Friday of every month that has one at 09:00, UTC",
    "0 9 * * 5#4,5#5": "On the fourth and fifth Friday of any month at 09:00, UTC",
    "0 9 * * 1#1,1#3,5L": "On the first and third Monday and the last Friday of every month at 09:00, UTC",
    "0 9 * * 1,1#1": "Every Monday at 09:00, UTC",
    "0 9 * * 1,5#1": "On every Monday and on the first Friday of every month at 09:00, UTC",
    "0 9 * 6 1,5#1": "In June on every Monday and on the first Friday at 09:00, UTC",
    "0 9 * 3,6 5#1": "On the first Friday of March and June at 09:00, UTC",
    # Days of the month
    "0 0 1 * *": "On the 1st of every month at 00:00, UTC",
    "0 0 1,2,3,11,12,13,21,22,23 * *": "On the 1st to 3rd, 11th to 13th and 21st to 23rd of every month at 00:00, UTC",
    "0 0 L * *": "On the last day of every month at 00:00, UTC",
    "0 0 15,L * *": "On the 15th and the last day of every month at 00:00, UTC",
    "0 0 */2 * *": "On odd days of every month at 00:00, UTC",
    "0 0 2-30/2 2 *": "On even days of February at 00:00, UTC",
    "0 0 31 * *": "On the 31st of every month that has one at 00:00, UTC",
    "0 0 15,31 * *": "On the 15th and 31st of any month at 00:00, UTC",
    "0 0 31 1,4 *": "On the 31st of January and April where there is one at 00:00, UTC",
    "*/5 * 1 * *": "Every 5 minutes on the 1st of every month, UTC",
    # Dates and months
    "0 0 1 1 *": "On 1 January at 00:00, UTC",
    "@yearly": "On 1 January at 00:00, UTC",
    "0 0 24,25 12 *": "On 24 and 25 December at 00:00, UTC",
    "0 0 29 2 *": "On 29 February at 00:00, UTC",
    "0 0 29,30,31 2 *": "On 29 February at 00:00, UTC",
    "0 0 1-30 4 *": "Every day in April at 00:00, UTC",
    "0 0 L 2 *": "On the last day of February at 00:00, UTC",
    "0 0 1 */3 *": "On the 1st of January, April, July and October at 00:00, UTC",
    "0 0 1 jun-dec *": "On the 1st of every month from June to December at 00:00, UTC",
    "0 0 1 1-7,9-12 *": "On the 1st of every month except August at 00:00, UTC",
    "0 0 * jun-aug *": "Every day in June, July and August at 00:00, UTC",
    "*/5 * * jun-dec *": "Every 5 minutes from June to December, UTC",
    # Either kind of day
    "0 0 13 * 5": "On the 13th and on every Friday at 00:00, UTC",
    "0 0 13 1 5": "In January on the 13th and on every Friday at 00:00, UTC",
    "0 0 31 2 5": "Every Friday in February at 00:00, UTC",
    "0 0 31 * 5L": "On the 31st and on the last Friday of any month at 00:00, UTC",
    "0 0 13 * 0-6": "Every day at 00:00, UTC",
    "0 0 1-31 * 5": "Every day at 00:00, UTC",
    # Both kinds at once, as a field that begins with a star asks
    "0 0 */2 * 1": "On every Monday falling on odd days of the month at 00:00, UTC",
    "0 0 13 * */3": "On every Wednesday, Saturday and Sunday falling on the 13th of the month at 00:00, UTC",
    "0 0 */10 6 5#3": "On the third Friday falling on the 1st, 11th or 21st of June at 00:00, UTC",
    "0 0 */15 * 1,5#3": "On every Monday falling on the 1st, 16th or 31st and on the third Friday falling on the 1st, "
    "16th or 31st of the month at 00:00, UTC",
}


@pytest.mark.parametrize(("expression", "sentence"), SENTENCES.items())
def test_an_expression_in_words(expression: str, sentence: str) -> None:
    assert in_words(Cron(expression)) == sentence


@pytest.mark.parametrize(
    ("expression", "zone", "sentence"),
    [
        ("0 9 * * 1-5", "America/New_York", "Every weekday at 09:00, New York"),
        ("0 9 * * *", "Australia/Lord_Howe", "Every day at 09:00, Lord Howe"),
        ("0 9 * * *", "America/Argentina/Buenos_Aires", "Every day at 09:00, Buenos Aires"),
        ("0 9 * * *", "Etc/UTC", "Every day at 09:00, UTC"),
        ("0 9 * * *", "Etc/GMT+5", "Every day at 09:00, Etc/GMT+5"),
        ("0 9 * * *", "US/Eastern", "Every day at 09:00, US/Eastern"),
        # No zone where it makes no difference …
        ("*/5 * * * *", "America/New_York", "Every 5 minutes"),
        ("*/15 * * * *", "Asia/Kathmandu", "Every 15 minutes"),
        ("0 * * * *", "America/New_York", "Every hour"),
        ("*/30 * * * *", "Asia/Kolkata", "Every 30 minutes"),
        # … as in a zone half an hour off, with a day named, or fixed times, of which a repeated hour has one set only
        ("*/30 * * * *", "Asia/Kathmandu", "Every 30 minutes, Kathmandu"),
        ("0 * * * *", "Asia/Kolkata", "Every hour, Kolkata"),
        ("0 * * * *", "Australia/Lord_Howe", "Every hour, Lord Howe"),
        ("*/5 * * * 1", "America/New_York", "Every 5 minutes on Mondays, New York"),
        ("0 0-23 * * *", "America/New_York", "Every hour, New York"),
        ("0 0-23 * * *", "Asia/Tokyo", "Every hour"),
    ],
)
def test_the_zone_is_named_where_it_makes_a_difference(expression: str, zone: str, sentence: str) -> None:
    assert in_words(Cron(expression, zone)) == sentence


def test_zones_of_one_name_have_the_same_clocks() -> None:
    clocks = defaultdict(set)
    for name in available_timezones():
        if not name.startswith(NO_ZONES):
            zone = dst.zone_named(name)
            offsets = tuple(dst.offset_at(zone, datetime(2026, month, 1, tzinfo=UTC)) for month in (1, 4, 7, 10))
            clocks[in_words(Cron("0 9 * * *", name))].add(offsets)
    assert [sentence for sentence, offsets in clocks.items() if len(offsets) > 1] == []


def test_the_sentence_names_the_values_that_h_stands_for() -> None:
    cron = Cron("H H * * *", key="reports")
    (hour,), (minute,) = cron.fields.hour.values, cron.fields.minute.values
    assert in_words(cron) == f"Every day at {hour:02}:{minute:02}, UTC"


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (1, "Every second"),
        (60, "Every minute"),
        (90, "Every 90 seconds"),
        (300, "Every 5 minutes"),
        (3600, "Every hour"),
        (5400, "Every 90 minutes"),
        (86_400, "Every 24 hours"),
        (604_800, "Every 168 hours (7 days)"),
    ],
)
def test_an_interval_in_words(seconds: int, sentence: str) -> None:
    assert in_words(Every(seconds, anchor=utc("2026-01-01"))) == sentence


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        (utc("2026-12-24 18:00"), "Once, on 24 December 2026 at 18:00 UTC"),
        (utc("2026-12-24 18:00:05"), "Once, on 24 December 2026 at 18:00:05 UTC"),
        (utc("2026-12-24 18:00:00.5"), "Once, on 24 December 2026 at 18:00 UTC"),
        (utc("2027-01-01").replace(tzinfo=timezone(timedelta(hours=2))), "Once, on 31 December 2026 at 22:00 UTC"),
    ],
)
def test_a_single_instant_in_words(at: datetime, sentence: str) -> None:
    assert in_words(Once(at)) == sentence


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        (None, None, "Every hour"),
        ("2027-01-01", None, "Every hour, from 1 January 2027 00:00 UTC"),
        (None, "2027-02-01 12:30", "Every hour, until 1 February 2027 12:30 UTC"),
        ("2027-01-01", "2027-02-01", "Every hour, from 1 January 2027 00:00 UTC, until 1 February 2027 00:00 UTC"),
    ],
)
def test_bounds_in_words(start: str | None, end: str | None, sentence: str) -> None:
    assert in_words(Within(Cron("0 * * * *"), utc(start) if start else None, utc(end) if end else None)) == sentence


def test_an_instant_out_of_its_bounds_never_comes() -> None:
    christmas = Once(utc("2026-12-24 18:00"))
    assert in_words(Within(christmas, end=christmas.at)) != "Never"
    assert in_words(Within(christmas, start=utc("2026-12-25"))) == "Never"
    assert in_words(Within(christmas, end=utc("2026-12-23"))) == "Never"


# ── No sentence lies ─────────────────────────────────────────────────────────────────────────────────────────────


def lists(low: int, high: int, *special: str) -> st.SearchStrategy[str]:
    numbers, all_of_them = range(low, high + 1), high - low + 1
    items = ["*", "H", *map(str, numbers), *(f"*/{step}" for step in range(2, all_of_them // 2))]
    items += [f"{first}-{last}" for first in numbers for last in numbers[:: all_of_them // 6] if first != last]
    return st.lists(st.sampled_from([*items, *special]), min_size=1, max_size=9).map(",".join)


NTH = [f"{weekday}#{place}" for weekday in range(7) for place in range(1, 6)] + [f"{weekday}L" for weekday in range(7)]
SECONDS = st.one_of(st.just(""), lists(0, 59))
EXPRESSIONS = st.tuples(SECONDS, lists(0, 59), lists(0, 23), lists(1, 31, "L"), lists(1, 12), lists(0, 6, *NTH)).map(
    " ".join
)


@given(EXPRESSIONS, st.sampled_from(["UTC", "America/New_York", "America/North_Dakota/New_Salem", "Asia/Kathmandu"]))
@settings(max_examples=400)
def test_every_expression_has_one_short_line(expression: str, zone: str) -> None:
    try:
        cron = Cron(expression, zone, key="reports")
    except InvalidSchedule:
        assume(False)
    sentence = in_words(cron)
    assert sentence
    assert sentence == " ".join(sentence.split())
    assert len(sentence) < 250
    assert sentence[0].isupper()
    assert not sentence.endswith(".")


# Few texts per field, near each other: expressions whose sentences could be taken for one another.
NEAR = {
    "second": ("", "0", "30", "*", "*/20", "*/40", "5,25,45"),
    "minute": (
        "0",
        "30",
        "*",
        "*/5",
        "*/7",
        "*/45",
        "0,45",
        "2-59/5",
        "0-29",
        "0-55/5",
        "10-20",
        "1,3,9,11,22,40,41,58",
    ),
    "hour": (
        "*",
        "9",
        "0",
        "*/2",
        "1-23/2",
        "*/7",
        "9-17",
        "22-6",
        "0-6",
        "9-12,14-17",
        "0-22",
        "*/5",
        "0-23",
        "0,8,17",
        "*/8",
    ),
    "day": ("*", "1", "31", "30", "13", "L", "15,L", "*/2", "2-30/2", "1-31/2", "1-7", "1-30", "28-31", "*/10", "1-31"),
    "month": ("*", "1", "2", "2,4", "1-3", "6-12", "*/3", "1-7,9-12", "4", "1,2,4,5,7,8", "11-2"),
    "weekday": ("*", "5", "1-5", "0,6", "1-6", "0-4", "5#3", "5#5", "5L", "1,5#3", "1,1#2", "*/2", "0-6", "5#4,5#5"),
}
ZONES = ("UTC", "UTC", "Asia/Tokyo", "Asia/Kolkata", "Asia/Kathmandu")  # without clock changes, which no sentence tells


def near_crons(count: int) -> list[Cron]:
    choose, found = Random(20260615), []
    while len(found) < count:
        # Most fields stay plain, so that the others meet again in other expressions.
        texts = [choose.choice(texts if choose.random() < 0.5 else texts[:1]) for texts in NEAR.values()]
        try:
            found.append(Cron(" ".join(texts).strip(), choose.choice(ZONES)))
        except InvalidSchedule:
            continue
    return found


def next_fires(cron: Cron, start: datetime, count: int) -> list[datetime | None]:
    found: list[datetime | None] = []
    moment: datetime | None = start
    while moment is not None and len(found) < count:
        moment = cron.next_after(moment)
        found.append(moment)
    return found


def test_expressions_with_the_same_sentence_have_the_same_fires() -> None:
    said: dict[str, dict[tuple[object, ...], Cron]] = defaultdict(dict)
    for cron in near_crons(6000):
        fields = cron.fields
        meaning = (cron.timezone, fields.needs_both_days, *(getattr(fields, name).values for name in NEAR))
        said[in_words(cron)].setdefault((*meaning, fields.day.has_last_day, fields.weekday.nth), cron)
    shared = {sentence: list(crons.values()) for sentence, crons in said.items() if " more" not in sentence}
    shared = {sentence: crons for sentence, crons in shared.items() if len(crons) > 1}
    assert len(shared) > 60
    for sentence, (first, *others) in shared.items():
        for start in (utc("2026-06-15 12:00"), utc("2028-02-20 23:59:59")):
            expected = next_fires(first, start, 20)
            for other in others:
                assert next_fires(other, start, 20) == expected, (sentence, first, other)


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"])
def test_a_sentence_without_a_zone_has_the_fires_of_utc_also_when_clocks_change(zone: str) -> None:
    changes = dst.changes_in_year(dst.zone_named(zone), 2026)
    starts = [change.instant - timedelta(hours=2) for change in changes] or [utc("2026-06-15 12:00")]
    for minute in ("*", "*/5", "*/15", "*/30", "0", "30", "*/45", "0-59"):
        for hour in ("*", "0-23"):
            cron, plain = Cron(f"{minute} {hour} * * *", zone), Cron(f"{minute} {hour} * * *")
            if in_words(cron) == in_words(plain):
                for start in starts:
                    assert next_fires(cron, start, 30) == next_fires(plain, start, 30), (cron, start)
