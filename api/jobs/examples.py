"""Bodies that can be pasted: they stand in the documentation, and a test sends each of them."""

from typing import Any

RECURRING: dict[str, Any] = {
    "key": "daily-invoice-gen",
    "target": {"task": "onbeat.echo"},
    "kwargs": {"message": "the invoices of acme"},
    "schedule": {"cron": "0 3 * * *", "timezone": "America/Los_Angeles"},
    "queue": "default",
    "priority": 5,
    "retry": {"max_attempts": 3, "backoff": "exponential", "initial_delay": 30},
    "timeout": 600,
}
CALLBACK: dict[str, Any] = {
    "key": "billing.close-month",
    "target": {"http": {"url": "https://billing.example.com/close-month", "timeout": 20}},
    "kwargs": {"company": 7},
    "schedule": {"cron": "0 6 1 * *", "timezone": "Europe/Berlin"},
}
DEFINITION = {name: value for name, value in RECURRING.items() if name != "key"}
AT_ANOTHER_TIME = {"schedule": {"cron": "30 4 * * *"}}
ONE_OFF: dict[str, Any] = {
    "key": "onboarding.reminder:user-123",
    "target": {"task": "onbeat.echo"},
    "kwargs": {"message": "hello, user 123"},
    "schedule": {"once": {"delay": 3600}},
}
