"""What a run showed, for a person and as JSON."""

from collections import Counter
from typing import Any

from chaos.evidence import Evidence
from chaos.judge import in_short
from chaos.run import Verdict
from chaos.tap import percentiles

_AFTER_A_KILL_SECONDS = 6.0
_KILLS = ("beat killed", "beat killed at a step")


def facts(verdict: Verdict) -> dict[str, Any]:
    found = verdict.evidence
    due = [row for row in found.rows if row.fire_time <= found.until]
    fires = [row for row in due if row.trigger == "SCHEDULE"]
    return {
        "seed": verdict.seed,
        "seconds": verdict.seconds,
        "beats": len(verdict.crew.beats),
        "workers": len(verdict.crew.workers),
        "fires": len(fires),
        "asked_for": len(due) - len(fires),
        "states": dict(sorted(Counter(row.state for row in due).items())),
        "runs": len(found.runs),
        "forgotten": found.forgotten,
        "attempts": dict(sorted(Counter(each.outcome for each in found.attempts).items())),
        "messages": sum(found.copies.values()),
        "published_twice": sum(count - 1 for count in found.copies.values()),
        "deeds": dict(sorted(Counter(entry.deed for entry in found.journal).items())),
        "unanswered": sum(entry.answered_at is None for entry in found.journal),
        "faults": dict(sorted(Counter(each.fault.kind for each in verdict.struck if each.has_struck).items())),
        "struck_nobody": sum(not each.has_struck for each in verdict.struck),
        "starts": verdict.starts,
        "drained_after_s": None if found.drained_after is None else round(found.drained_after, 1),
        "lateness_s": percentiles(_lateness(verdict)),
        "lateness_after_a_killed_beat_s": percentiles(_lateness(verdict, only_after_kill=True)),
        "breaches": [str(breach) for breach in verdict.breaches],
    }


def _lateness(verdict: Verdict, *, only_after_kill: bool = False) -> list[float]:
    """Of scheduled fires: from their time until the broker had their message."""
    kills = [each.began_at for each in verdict.struck if each.fault.kind in _KILLS and each.has_struck]
    late: list[float] = []
    for row in verdict.evidence.rows:
        due = row.fire_time.timestamp()
        arrived = verdict.arrived_at.get((row.id, 1))
        if row.trigger != "SCHEDULE" or arrived is None or row.fire_time <= verdict.evidence.began_at:
            continue
        if not only_after_kill or any(kill - 1 <= due <= kill + _AFTER_A_KILL_SECONDS for kill in kills):
            late.append(max(0.0, arrived - due))
    return late


def in_words(verdict: Verdict) -> str:
    said = facts(verdict)
    lines = [
        f"seed {said['seed']}, {said['seconds']:.0f} s, {said['beats']} beats, {said['workers']} workers",
        f"  fires      {said['fires']:,} rows of schedules, {said['asked_for']:,} asked for: {_listed(said['states'])}",
        f"  runs       {said['runs']:,} by handlers; attempts: {_listed(said['attempts'])}",
        *(
            [f"             {said['forgotten']} more, forgotten by a PostgreSQL that crashed"]
            if said["forgotten"]
            else []
        ),
        f"  messages   {said['messages']:,}, {said['published_twice']:,} of them published again",
        f"  callers    {_listed(said['deeds'])}; {said['unanswered']} without an answer",
        f"  faults     {sum(said['faults'].values())}, and {said['struck_nobody']} that struck nobody",
        *(f"    {count:4}  {kind}" for kind, count in said["faults"].items()),
        f"  lateness   {_listed(said['lateness_s'])} s; after a killed beat "
        f"{_listed(said['lateness_after_a_killed_beat_s']) or 'none'}",
        f"  all over   {_drained(verdict.evidence)}",
    ]
    if not verdict.breaches:
        return "\n".join([*lines, "CLEAN: every fire once, every run accounted for."])
    broken = [f"  {line}" for line in in_short(verdict.breaches)]
    return "\n".join([*lines, f"BROKEN: {len(verdict.breaches)} breaches.", *broken])


def _drained(found: Evidence) -> str:
    after = found.drained_after
    return f"not within {found.drained_within:.0f} s" if after is None else f"{after:.1f} s after the last fault"


def _listed(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
