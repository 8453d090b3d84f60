"""`python -m benchmarks NAME [--json]`; `python -m benchmarks NAME --help` tells the options of one.

Figures go to stdout, and what is said meanwhile goes to stderr.
"""

import argparse
import contextlib
import json
import signal
import sys
from types import FrameType
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from launcher.refusal import Refusal


def measure_recurrence(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import recurrence

    return recurrence.measure(options.jobs)


def measure_dispatch(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import dispatch

    return dispatch.measure(options.fires, options.peer_fires, peer_keeps_connection=options.peer_keeps_connection)


def measure_idle(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import idle

    return idle.measure(options.schedules, options.seconds)


def measure_takeover(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import takeover

    return takeover.measure(options.fires)


def measure_api(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import api

    if options.quick:
        return api.measure(options.rows, jobs=8, runs=2, bulk=50, places=1)
    return api.measure(options.rows)


def api_in_words(figures: dict[str, Any]) -> str:
    from benchmarks import api

    return api.in_words(figures)


def measure_admin(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import admin

    if options.quick:
        return admin.measure(options.rows, options.jobs, requests=2, keep=options.keep)
    return admin.measure(options.rows, options.jobs, keep=options.keep)


def admin_in_words(figures: dict[str, Any]) -> str:
    from benchmarks import admin

    return admin.in_words(figures)


def measure_apply(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import apply

    return apply.measure(options.jobs)


def apply_in_words(figures: dict[str, Any]) -> str:
    from benchmarks import apply

    return apply.in_words(figures)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m benchmarks")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    shared.set_defaults(in_words=in_words)
    names = whole.add_subparsers(metavar="NAME", required=True)

    what = "how many next fires per second are found, beside croniter"
    recurrence = names.add_parser("recurrence", parents=[shared], help=what, description=what)
    recurrence.add_argument("--jobs", type=positive, default=100_000, help="how many ask at once (default 100000)")
    recurrence.set_defaults(measure=measure_recurrence)

    what = "how many fires per second one beat brings to the broker, beside django-celery-beat"
    dispatch = names.add_parser("dispatch", parents=[shared], help=what, description=what)
    dispatch.add_argument("--fires", type=positive, default=20_000, help="how many are due at once (default 20000)")
    dispatch.add_argument(
        "--peer-fires", type=count, default=1000, help="the same for the peer (default 1000); 0: none"
    )
    keeps = "let the peer keep its database connection (CONN_MAX_AGE = None), which is not Django's default"
    dispatch.add_argument("--peer-keeps-connection", action="store_true", help=keeps)
    dispatch.set_defaults(measure=measure_dispatch)

    what = "what a beat costs that has nothing to do"
    idle = names.add_parser("idle", parents=[shared], help=what, description=what)
    idle.add_argument("--schedules", type=positive, default=10_000, help="how many are stored (default 10000)")
    idle.add_argument("--seconds", type=positive, default=20, help="how long it is watched (default 20)")
    idle.set_defaults(measure=measure_idle)

    what = "how long the fires of a beat wait that is killed in the middle of a burst"
    takeover = names.add_parser("takeover", parents=[shared], help=what, description=what)
    takeover.add_argument("--fires", type=positive, default=4000, help="how many are due at once (default 4000)")
    takeover.set_defaults(measure=measure_takeover)

    what = "what the REST API takes to create, run, run in bulk and list, beside its budgets"
    api = names.add_parser("api", parents=[shared], help=what, description=what)
    api.add_argument("--rows", type=positive, default=5_000_000, help="executions in the table (default 5000000)")
    api.add_argument("--quick", action="store_true", help="ask for little: whether it works, and no figures")
    api.set_defaults(measure=measure_api, in_words=api_in_words)

    what = "what the pages of the admin take on a large database, beside their budgets"
    admin = names.add_parser("admin", parents=[shared], help=what, description=what)
    admin.add_argument("--rows", type=positive, default=5_000_000, help="executions in the table (default 5000000)")
    admin.add_argument("--jobs", type=positive, default=100_000, help="jobs in the table (default 100000)")
    admin.add_argument("--quick", action="store_true", help="ask for little: whether it works, and no figures")
    keep = "fill this database and leave it there; if it was left there before, measure on it as it is"
    admin.add_argument("--keep", metavar="DATABASE", default="", help=keep)
    admin.set_defaults(measure=measure_admin, in_words=admin_in_words)

    what = "what it takes to apply a file of many jobs, beside its budget and making them one by one"
    apply = names.add_parser("apply", parents=[shared], help=what, description=what)
    apply.add_argument("--jobs", type=positive, default=10_000, help="how many the file holds (default 10000)")
    apply.set_defaults(measure=measure_apply, in_words=apply_in_words)
    return whole


def count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def positive(text: str) -> int:
    if not (number := count(text)):
        raise ValueError
    return number


def main() -> None:
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, end)
    try:
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
    width = max(map(len, figures))
    return "\n".join(f"{name:<{width}}  {figure}" for name, figure in figures.items())


def end(number: int, _frame: FrameType | None) -> None:
    """Told to end: what was started and made goes first, on the way out."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
