"""What beats do for the terminal when they start: `jobs sync`, if it is set."""

from collections import Counter

from api.jobs import deeds
from executions.clock import database_now
from jobs import declared
from jobs.applying import Rules


def sync() -> dict[str, object]:
    """Bring jobs in line with what @scheduled declares. What is no longer declared is left: only people prune."""
    now = database_now()
    steps = deeds.apply(declared.all_said(now=now), Rules(declared.MANAGER), by="", through="beat", now=now)
    return {str(becomes): count for becomes, count in Counter(step.becomes for step in steps).items()}
