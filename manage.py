#!/usr/bin/env python
"""Django's command line. `./onbeat WORD …` is the same with the virtual environment found for you."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as problem:
        # A wrong setting is the reader's to mend, not ours to debug: the sentence without the traceback.
        sys.exit(f"onbeat: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
