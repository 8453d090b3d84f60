"""`make chaos`, or `./onbeat chaos`: try to break the promise, and tell whether that worked."""

import argparse
import json
import os
import random
import shutil
import sys
from pathlib import Path

from chaos import evidence, plan, report
from chaos.broken import GUARDS
from chaos.evidence import DRAINED_WITHIN_SECONDS
from chaos.plan import KINDS, Fault
from chaos.run import run
from launcher import folders
from launcher.refusal import Refusal

_EXAMPLES = """\
examples:
  ./onbeat chaos                          five minutes, with a seed that nobody knows before
  ./onbeat chaos --seconds 60 --seed 7    the same faults each time
  ./onbeat chaos --seed 7 --plan          tell which faults these are, and strike nobody
  ./onbeat chaos --only "beat killed"     how late fires are after that
  ./onbeat chaos --break mark --seconds 40   with a guard of the product broken: it must be found
"""
_SHORTEST, _LONGEST = 20, 24 * 3600


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "./onbeat chaos",
        description="Run the real platform on private servers under a mixed load while faults strike, and compare what "
        "its handlers did with what it says. Exits with 1 if a promise was broken.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=300, help="for how long faults strike (300)")
    parser.add_argument("--seed", type=int, default=None, help="the same seed and length are the same faults")
    parser.add_argument(
        "--drained-within",
        type=float,
        default=DRAINED_WITHIN_SECONDS,
        metavar="SECONDS",
        help="so long after the last fault all must be over (60); more on a machine that has other work",
    )
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="one kind of fault; repeat it")
    parser.add_argument(
        "--break", dest="guard", choices=sorted(GUARDS), default="", help="break a guard of the product"
    )
    parser.add_argument("--plan", action="store_true", help="tell what would strike, and end")
    parser.add_argument("--keep", action="store_true", help="keep logs, ledger and rows also of a clean run")
    parser.add_argument("--json", action="store_true", help="the result as JSON, and all else on the standard error")
    said = parser.parse_args(words)
    if not _SHORTEST <= said.seconds <= _LONGEST:
        parser.error(f"--seconds must be {_SHORTEST} to {_LONGEST}, not {said.seconds:g}.")
    for name in said.only:
        if name not in KINDS:
            parser.error(f"There is no fault {name!r}; there are: {', '.join(KINDS)}.")
    return said


def main(words: list[str]) -> int:
    said = _arguments(words)
    seed = random.SystemRandom().randrange(10**6) if said.seed is None else said.seed
    out = sys.stderr if said.json else sys.stdout

    def say(text: str) -> None:
        begin = "\r\033[K" if out.isatty() else ""  # a line that counts seconds stands there
        print(f"{begin}{text}", file=out, flush=True)

    if said.plan:
        for fault in plan.plan(seed, said.seconds, plan.crew_of(seed), said.only):
            print(fault)
        return 0
    say(f"seed {seed}: `./onbeat chaos --seed {seed} --seconds {said.seconds:g}` strikes with the same faults")
    if said.guard:
        say(f"broken on purpose: {GUARDS[said.guard]}")
    keep = folders.data_dir() / "chaos" / f"seed-{seed}"
    shutil.rmtree(keep, ignore_errors=True)
    verdict = run(
        seed,
        said.seconds,
        say=say,
        tell=lambda fault: say(_line(fault)),
        kinds=said.only,
        guard=said.guard,
        keep=keep,
        drained_within=said.drained_within,
    )
    if verdict.breaches or said.keep:
        _keep(verdict.evidence, keep)
        say(f"logs, ledger and evidence: {keep}")
    else:
        shutil.rmtree(keep, ignore_errors=True)
    print(json.dumps(report.facts(verdict), indent=2) if said.json else report.in_words(verdict))
    return 1 if verdict.breaches else 0


def _line(fault: Fault) -> str:
    return f"  {fault}"


def _keep(found: evidence.Evidence, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in ("rows", "attempts", "versions", "journal"):
        lines = [json.dumps(vars(each), default=str) for each in getattr(found, name)]
        (place / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        sys.exit(f"onbeat: {refusal}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
