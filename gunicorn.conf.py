"""How gunicorn serves the web process; it reads this file by itself when it is started in this folder.

Any of it can be said otherwise on the command line. `--bind` says where it listens.
"""

import os
import sys

from executions import metrics_folder

control_socket_disable = True  # nobody asks it anything, and it would open one below the home directory
threads = 8
errorlog = "-"
# Each of several web processes knows only what it counted itself: they count into one folder.
if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics_folder.begin()

_kind = os.environ.get("ONBEAT_EXECUTIONS_LOG_FORMAT", "").strip().lower() or "auto"
if _kind == "json" or (_kind == "auto" and not sys.stderr.isatty()):
    logconfig_dict = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": "executions.log_lines.formatter", "kind": "json"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "loggers": {"gunicorn.error": {"handlers": ["console"], "level": "INFO", "propagate": False}},
    }
