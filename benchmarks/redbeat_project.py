"""A project that is made as celery-redbeat tells its users to, so that a benchmark has a peer to stand beside.

`celery -A benchmarks.redbeat_project beat -S redbeat.RedBeatScheduler` runs it, and
`python -m benchmarks.redbeat_project` stores tasks that are due at once. It is no part of the platform and loads
nothing of it. Where it runs, `benchmarks/peers.py` tells it; all else is as Celery and redbeat have it by default.
"""

import os
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatSchedulerEntry

app = Celery("redbeat_project", broker=os.environ["CELERY_BROKER_URL"])
app.conf.task_default_queue = os.environ["PEER_QUEUE"]
app.conf.redbeat_redis_url = os.environ["REDIS_URL"]
app.conf.redbeat_key_prefix = os.environ["PEER_KEY_PREFIX"]


def main() -> None:
    daily = schedule(timedelta(days=1), app=app)
    two_days_ago = datetime.now(UTC) - timedelta(days=2)
    for number in range(int(os.environ["PEER_FIRES"])):
        RedBeatSchedulerEntry(f"peer-{number}", "peer.echo", daily, last_run_at=two_days_ago, app=app).save()


if __name__ == "__main__":
    main()
