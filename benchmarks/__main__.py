"""`python -m benchmarks NAME [--json]`; `python -m benchmarks NAME --help` tells the options of one.

Figures go to stdout, and what is said meanwhile goes to stderr. A benchmark is a module with `WHAT` it measures,
`add_options`, `measure_as_asked` and, if a plain list of its figures does not do, `in_words`. `all` runs them one after
the other and `report` makes the page of their figures.
"""

import argparse
import contextlib
import json
import signal
import sys
from types import FrameType
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from benchmarks import (
    admin,
    api,
    apply,
    budgets,
    dispatch,
    enqueue,
    failover,
    idle,
    lateness,
    recurrence,
    scale_out,
    stored,
    worker,
)
from benchmarks.report import page, run
from launcher.refusal import Refusal

_ALL: tuple[Any, ...] = (
    *(recurrence, dispatch, lateness, failover, scale_out, idle),
    *(worker, stored, enqueue, api, admin, apply),
)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m benchmarks")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    names = whole.add_subparsers(metavar="NAME", required=True)
    for module in _ALL:
        name = module.__name__.rpartition(".")[2]
        options = names.add_parser(name, parents=[shared], help=module.WHAT, description=module.WHAT)
        module.add_options(options)
        options.set_defaults(measure=module.measure_as_asked, in_words=getattr(module, "in_words", in_words))
    together = names.add_parser("all", help=run.WHAT, description=run.WHAT)
    run.add_options(together, list(names.choices)[:-1])
    together.set_defaults(do=run.run)
    told = names.add_parser("report", help=page.WHAT, description=page.WHAT)
    page.add_options(told)
    told.set_defaults(do=page.run)
    return whole


def main() -> None:
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, end)
    try:
        if "do" in options:
            sys.exit(options.do(options))
        with contextlib.redirect_stdout(sys.stderr):
            figures = options.measure(options)
    except (Refusal, ImproperlyConfigured) as problem:
        print(f"benchmarks: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    if options.json:
        print(json.dumps(figures))
        return
    print(options.in_words(figures))


def in_words(figures: dict[str, Any]) -> str:
    """A list, beneath the table of those that have budgets."""
    budgeted = [budgets.table(figures["lines"]), ""] if "lines" in figures else []
    others = {name: figure for name, figure in figures.items() if name != "lines"}
    width = max(map(len, others))
    return "\n".join([*budgeted, *(f"{name:<{width}}  {figure}" for name, figure in others.items())])


def end(number: int, _frame: FrameType | None) -> None:
    """Told to end: what was started and made goes first, on the way out."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
