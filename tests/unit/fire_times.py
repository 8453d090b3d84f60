"""Instants and series of fires, written short for the tests of recurrence."""

from datetime import UTC, datetime

from jobs.recurrence import Cron


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(expression: str, zone: str, start: str, count: int) -> list[datetime]:
    cron, moment = Cron(expression, zone), utc(start)
    found = []
    for _ in range(count):
        following = cron.next_after(moment)
        assert following is not None
        found.append(following)
        moment = following
    return found
