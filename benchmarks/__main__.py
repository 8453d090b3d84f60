"""`python -m benchmarks NAME [--json]`"""

import argparse
import json
import os
import sys

BENCHMARKS = {"tick": "how many fires per second one beat plans and publishes"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    listed = "; ".join(f"{name}: {what}" for name, what in BENCHMARKS.items())
    parser.add_argument("name", choices=sorted(BENCHMARKS), help=listed)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--fires", type=int, default=2000, help="how many schedules are due at once (default 2000)")
    options = parser.parse_args()

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    import django

    django.setup()
    from benchmarks import tick

    figures = tick.measure(options.fires)
    if options.json:
        print(json.dumps(figures))
        return
    width = max(map(len, figures))
    for name, figure in figures.items():
        print(f"{name:<{width}}  {figure}")


if __name__ == "__main__":
    sys.exit(main())
