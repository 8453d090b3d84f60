"""What may become of each job of the load, said apart from what the product makes of its policies. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """Nothing of this, unless it is said."""

    skips: bool = False  # by its overlap policy, or because somebody pauses and changes it
    is_cancelled: bool = False  # by its own next fire
    times_out: bool = False
    fails: int | None = None  # after so many failures it is given up
    is_lost: int | None = None  # after so many losses
    dies_before_it_runs: bool = False  # if faults strike between the claim and the handler


_BY_KEY = {
    "limited-queue": Allowed(skips=True),
    "limited-skip": Allowed(skips=True),
    "limited-cancel": Allowed(is_cancelled=True),
    "doomed": Allowed(fails=2),
    "crash-always": Allowed(is_lost=2, dies_before_it_runs=True),
    "overtime": Allowed(times_out=True, fails=1, dies_before_it_runs=True),
    "call-later": Allowed(times_out=True),
}
_OF_CALLERS = ("edited-", "made-")


def allowed(job: str) -> Allowed:
    return Allowed(skips=True) if job.startswith(_OF_CALLERS) else _BY_KEY.get(job, Allowed())
