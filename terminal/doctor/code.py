"""Code: schedules that are declared beside tasks, and whether the stored jobs still say the same."""

from executions.words import count
from jobs import applying, declared
from jobs.applying import Becomes, Rules
from jobs.refusals import Refused
from jobs.upserts import RefusedItems
from terminal.doctor.findings import Examined, Fault, Finding, named
from terminal.doctor.visit import Visit

CANNOT_BE = Fault(
    "code.E01",
    means="What @scheduled says there cannot be, and while it stands there `jobs sync` does nothing.",
    remedy="Correct the declaration, deploy, and run `./onbeat jobs sync`.",
)
DRIFT = Fault(
    "code.W01",
    means="The stored jobs are not as the code declares them: it was not synced, or somebody changed them elsewhere.",
    remedy="See `./onbeat jobs sync --dry-run`; then sync, or change the code.",
)
GONE = Fault(
    "code.W02",
    means="The code declares them no longer, and they still fire.",
    remedy="Run `./onbeat jobs sync --prune` to archive them.",
)


def examine(visit: Visit) -> Examined:
    if wrong := declared.mistakes(visit.now):
        return Examined("cannot be read", [CANNOT_BE.found(f"{where}: {why}") for where, why in wrong])
    try:
        wanted = declared.all_said(now=visit.now)
        steps = applying.look(wanted, Rules(declared.MANAGER), now=visit.now)
    except RefusedItems as refused:
        found = [CANNOT_BE.found(f"{wanted[place].key}: {why}") for place, why in refused.refusals.items()]
        return Examined("cannot be applied", found)
    except Refused as refused:
        return Examined("cannot be read", [CANNOT_BE.found(str(refused))])
    keys = {becomes: [step.key for step in steps if step.becomes is becomes] for becomes in Becomes}
    findings: list[Finding] = []
    if drifted := sorted(keys[Becomes.CREATED] + keys[Becomes.CHANGED] + keys[Becomes.ADOPTED]):
        findings.append(DRIFT.found(f"Not as declared: {named(drifted)}.", jobs=len(drifted)))
    if gone := keys[Becomes.LEFT]:
        findings.append(GONE.found(f"Declared no longer: {named(gone)}.", jobs=len(gone)))
    return Examined(f"{count(len(wanted), 'job')} declared beside tasks", findings)
