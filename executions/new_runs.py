"""Asked-for runs that are to get their rows. Pure: no Django."""

import uuid
from datetime import datetime
from typing import NamedTuple


class NewRun(NamedTuple):
    """The columns in which runs of one job may differ, the payload as its JSON."""

    id: uuid.UUID
    fire_time: datetime
    available_at: datetime
    trigger: str
    run_key: str
    priority: int
    args: str
    kwargs: str
