"""`python -m benchmarks NAME [--json]`; `python -m benchmarks NAME --help` tells the options of one."""

import argparse
import json
import os
from typing import Any


def measure_recurrence(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import recurrence

    return recurrence.measure(options.jobs)


def measure_tick(options: argparse.Namespace) -> dict[str, Any]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    import django

    django.setup()
    from benchmarks import tick

    return tick.measure(options.fires)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m benchmarks")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    names = whole.add_subparsers(metavar="NAME", required=True)

    what = "how many next fires per second are found, beside croniter"
    recurrence = names.add_parser("recurrence", parents=[shared], help=what, description=what)
    recurrence.add_argument("--jobs", type=int, default=100_000, help="how many ask at once (default 100000)")
    recurrence.set_defaults(measure=measure_recurrence)

    what = "how many fires per second one beat plans and publishes"
    tick = names.add_parser("tick", parents=[shared], help=what, description=what)
    tick.add_argument("--fires", type=int, default=2000, help="how many schedules are due at once (default 2000)")
    tick.set_defaults(measure=measure_tick)
    return whole


def main() -> None:
    options = parser().parse_args()
    figures = options.measure(options)
    if options.json:
        print(json.dumps(figures))
        return
    width = max(map(len, figures))
    for name, figure in figures.items():
        print(f"{name:<{width}}  {figure}")


if __name__ == "__main__":
    main()
