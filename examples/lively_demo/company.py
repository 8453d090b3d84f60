"""A company of which nobody has heard: what it runs and when, who looks after it, and on which machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from access.roles import Role
from executions.retry import Backoff, RetryPolicy
from executions.states import Overlap
from jobs.http_target import HttpTarget
from jobs.recurrence import Cron, Every

BERLIN, LONDON, NEW_YORK = "Europe/Berlin", "Europe/London", "America/New_York"
LOS_ANGELES = "America/Los_Angeles"
TENANTS = 40
_PHASE = datetime(2026, 1, 1, tzinfo=UTC)  # of the intervals

# By name, with the role that each has.
PEOPLE = {
    "ana.ruiz": Role.EDITOR,
    "jonas.weber": Role.OPERATOR,
    "mei.tanaka": Role.ADMIN,
    "sam.oconnor": Role.VIEWER,
}

# By name, with the queues that each takes from.
MACHINES = {
    "tasks@fra-1": ("default", "billing", "mail", "crm"),
    "tasks@fra-2": ("default", "billing", "mail", "crm", "reports"),
    "media@fra-3": ("media",),
    "callbacks@fra-1": ("http",),
    "tasks@lon-1": ("default", "crm", "reports"),
}
SILENT_MACHINE = "tasks@lon-1"
BEATS = ("beat@fra-1", "beat@fra-2")


@dataclass(frozen=True)
class Work:
    """A job, and how its runs usually go."""

    key: str
    seconds: float  # that one takes
    schedule: Cron | Every | None = None
    by: str = "ana.ruiz"  # who made it
    task: str = ""
    per_hour: int = 0  # how many are asked for, at the busiest time of the day
    counts: str = ""  # what its result counts
    more: Mapping[str, Any] = field(default_factory=dict)  # as `definitions.create` takes it

    @property
    def queue(self) -> str:
        return str(self.more.get("queue", "default"))


def _owned(owner: str, queue: str, *tags: str, **more: Any) -> dict[str, Any]:
    return {"owner": f"{owner}@meridian.example", "queue": queue, "tags": list(tags), **more}


CHARGES = Work(
    "billing.charge-subscriptions",
    6.0,
    Cron("*/10 * * * *", BERLIN),
    task="billing.tasks.charge_subscriptions",
    counts="charged",
    more=_owned("billing", "billing", "money", "critical", priority=8, timeout_seconds=300),
)
# Fails since this morning.
EXPORTS = Work(
    "billing.export-invoices",
    11.0,
    Cron("*/20 * * * *", BERLIN),
    task="billing.tasks.export_invoices",
    counts="invoices",
    more=_owned(
        "billing",
        "billing",
        "money",
        kwargs={"format": "datev", "mandant": 4711},
        retry=RetryPolicy(max_attempts=3, backoff=Backoff.FIXED, initial_seconds=600, jitter=0),
    ),
)
# Now and then not done when its next fire comes.
CONTACTS = Work(
    "crm.sync-contacts",
    48.0,
    Every(180, _PHASE),
    by="jonas.weber",
    task="crm.tasks.sync_contacts",
    counts="contacts",
    more=_owned("crm", "crm", "sync", overlap=Overlap.SKIP, timeout_seconds=600),
)
RECEIPTS = Work(
    "mail.send-receipt",
    0.4,
    task="mail.tasks.send_receipt",
    per_hour=230,
    more=_owned("growth", "mail", "customers", kwargs={"template": "receipt"}, priority=7),
)
# More of it comes than is done.
THUMBNAILS = Work(
    "media.make-thumbnails",
    3.2,
    task="media.tasks.make_thumbnails",
    per_hour=90,
    more=_owned("platform", "media", "customers", kwargs={"sizes": [160, 480, 1280]}),
)
# Runs at this moment, and takes long.
INDEX = Work(
    "search.rebuild-index",
    2100.0,
    Cron("0 3,15 * * *", BERLIN),
    by="jonas.weber",
    task="search.tasks.rebuild_index",
    counts="documents",
    more=_owned("platform", "default", "search", timeout_seconds=7200, overlap=Overlap.SKIP),
)
STOCK = Work(
    "webhooks.stock-levels",
    0.6,
    Every(300, _PHASE),
    more=_owned(
        "partners",
        "http",
        "partners",
        http=HttpTarget(url="https://hooks.northwind.example/v2/stock", timeout_seconds=15),
        kwargs={"warehouse": "fra"},
    ),
)
# Paused.
WAREHOUSE = Work(
    "warehouse.load-orders",
    130.0,
    Cron("20 * * * *", "UTC"),
    by="mei.tanaka",
    task="warehouse.tasks.load_orders",
    counts="orders",
    more=_owned("data", "reports", "analytics"),
)

WORKS = [
    CHARGES,
    EXPORTS,
    CONTACTS,
    RECEIPTS,
    THUMBNAILS,
    INDEX,
    STOCK,
    WAREHOUSE,
    Work(
        "billing.close-day",
        95.0,
        Cron("30 0 * * *", BERLIN),
        task="billing.tasks.close_day",
        more=_owned("billing", "billing", "money", "nightly", overlap=Overlap.QUEUE),
    ),
    Work(
        "crm.sync-deals",
        14.0,
        Cron("*/15 8-19 * * mon-fri", LONDON),
        by="jonas.weber",
        task="crm.tasks.sync_deals",
        counts="deals",
        more=_owned("crm", "crm", "sync"),
    ),
    Work(
        "mail.daily-digest",
        210.0,
        Cron("30 7 * * mon-fri", NEW_YORK),
        task="mail.tasks.daily_digest",
        counts="sent",
        more=_owned("growth", "mail", "customers", jitter_seconds=60),
    ),
    Work(
        "backup.database",
        1980.0,
        Cron("15 2 * * *", "UTC"),
        by="mei.tanaka",
        task="backup.tasks.dump_database",
        counts="megabytes",
        more=_owned("platform", "default", "nightly", "critical", timeout_seconds=7200, overlap=Overlap.SKIP),
    ),
    Work(
        "backup.uploads",
        71.0,
        Cron("5 * * * *", "UTC"),
        by="mei.tanaka",
        task="backup.tasks.copy_uploads",
        counts="files",
        more=_owned("platform", "default", "critical"),
    ),
    Work(
        "cache.warm-storefront",
        1.3,
        Every(120, _PHASE),
        by="jonas.weber",
        task="shop.tasks.warm_storefront",
        counts="pages",
        more=_owned("shop", "default", "cache", priority=2),
    ),
    Work(
        "cache.warm-prices",
        4.5,
        Cron("*/10 6-22 * * *", LOS_ANGELES),
        by="jonas.weber",
        task="shop.tasks.warm_prices",
        counts="prices",
        more=_owned("shop", "default", "cache", priority=2),
    ),
    Work(
        "reports.weekly-revenue",
        64.0,
        Cron("0 6 * * mon", LOS_ANGELES),
        task="reports.tasks.weekly_revenue",
        more=_owned("data", "reports", "analytics"),
    ),
    # All at midnight: the pile that the forecast shows.
    *(
        Work(
            f"reports.tenant-{number:02}",
            22.0,
            Cron("0 0 * * *", BERLIN),
            by="mei.tanaka",
            task="reports.tasks.tenant_report",
            counts="rows",
            more=_owned("data", "reports", "nightly", "tenants", kwargs={"tenant": number}),
        )
        for number in range(1, TENANTS + 1)
    ),
]


def machines_of(queue: str) -> list[str]:
    """Those that take from it and give signs of life."""
    return [name for name, queues in MACHINES.items() if queue in queues and name != SILENT_MACHINE]
