"""Upkeep: duties of the beats that leave a trace, and whether what they remove is gone."""

from collections.abc import Iterator
from datetime import timedelta

from beat import kept
from executions import retention
from executions.words import away, count
from jobs import forecasting
from jobs.models import StoredForecast
from terminal.doctor.findings import Examined, Fault, Finding, at_most
from terminal.doctor.visit import Visit

SLACK = timedelta(days=1)  # what is past its days goes in parts
PATIENCE = timedelta(minutes=10)
MOST = 1000

OLD_MONTHS = Fault(
    "upkeep.W01",
    means="Whole months are past their days, nothing in them has to stay, and they take room.",
    remedy="Run `./onbeat upkeep retention`, and see in the beats' log why they did not; somebody may use the table.",
)
OLD_ROWS = Fault(
    "upkeep.W02",
    means="Rows are past their days and still there: upkeep does not get to them, or does not keep up.",
    remedy="Run `./onbeat upkeep` until nothing is left, and see in the beats' log why they did not.",
)
NOT_DONE = Fault(
    "upkeep.W03",
    means="Beats tick, and a duty that is done every minute left no trace: the others may be undone as well.",
    remedy="See in the beats' log which duty fails or takes long; `./onbeat upkeep` does them now.",
)


def examine(visit: Visit) -> Examined:
    then = visit.now - SLACK
    past = [each for each in retention.months(then) if each.goes_from <= then]
    rows = {kind.name: kind.past for kind in kept.kinds(then, most=MOST + 1) if kind.past}
    findings: list[Finding] = []
    if going := [each.month for each in past if not each.stays_for]:
        months = [f"{month.year:04}-{month.number:02}" for month in going]
        findings.append(OLD_MONTHS.found(f"Past their days: {', '.join(months)}.", months=months))
    if rows:
        said = ", ".join(at_most(number, MOST, kind, kind).lower() for kind, number in rows.items())
        findings.append(OLD_ROWS.found(f"Past their days: {said}.", rows=rows))
    findings += _forecast(visit)
    staying = len(past) - len(going)
    stays = f"{count(staying, 'month')} kept for what is in it" if staying else ""
    return Examined("; ".join(filter(None, ["behind" if findings else "nothing is past its days", stays])), findings)


def _forecast(visit: Visit) -> Iterator[Finding]:
    """It is made every minute, or rarer where it takes long: the one duty that leaves a trace each time."""
    if not visit.is_ticking_for(2 * PATIENCE.total_seconds() / 60):
        return
    last = StoredForecast.objects.first()
    patience = PATIENCE + timedelta(seconds=2 * forecasting.RESTS_TIMES * (last.took_seconds if last else 0))
    if last is None or last.made_at < visit.now - patience:
        made = f"was made {away(last.made_at, now=visit.now)}" if last else "was never made"
        yield NOT_DONE.found(f"The forecast of the next day {made}.")
