"""A project with plain celery beat, so that a benchmark has a peer to stand beside.

`celery -A benchmarks.celery_beat_project beat` runs it. It is no part of the platform and loads nothing of it. Where it
runs and with how many tasks, `benchmarks/peers.py` tells it; all else is as Celery has it by default.
"""

import os
from datetime import UTC, datetime, timedelta

from celery import Celery

app = Celery("celery_beat_project", broker=os.environ["CELERY_BROKER_URL"])
app.conf.task_default_queue = os.environ["PEER_QUEUE"]
app.conf.beat_schedule_filename = os.environ["PEER_SCHEDULE_FILE"]

_two_days_ago = datetime.now(UTC) - timedelta(days=2)
app.conf.beat_schedule = {
    f"peer-{number}": {"task": "peer.echo", "schedule": timedelta(days=1), "last_run_at": _two_days_ago}
    for number in range(int(os.environ["PEER_FIRES"]))
}
