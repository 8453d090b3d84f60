"""Fill an empty database with an installation that looks alive: python -m examples.lively_demo

The database is the one of DATABASE_URL or DATA_DIR, migrated. One that has a job is not touched.
"""

import argparse
import os
import sys
import time

_SIGN_SECONDS = 3.0


def main() -> int:
    parser = argparse.ArgumentParser("python -m examples.lively_demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--stay", action="store_true", help="give signs of life for its machines, until Ctrl-C")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    import django

    django.setup()
    from django.db.utils import OperationalError, ProgrammingError

    from examples.lively_demo.filling import HasJobs, fill

    try:
        print(fill())
    except HasJobs as refused:
        print(refused, file=sys.stderr)
        return 1
    except (OperationalError, ProgrammingError) as error:
        print(f"The database cannot be filled; migrate it first with `./onbeat migrate`. {error}", file=sys.stderr)
        return 1
    if options.stay:
        _stay()
    return 0


def _stay() -> None:
    from examples.lively_demo.present import give_signs_of_life
    from executions.clock import database_now

    print("Its machines give signs of life until you press Ctrl-C.", flush=True)
    try:
        while True:
            give_signs_of_life(database_now())
            time.sleep(_SIGN_SECONDS)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    raise SystemExit(main())
