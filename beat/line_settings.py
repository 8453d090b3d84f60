"""What a beat tells PostgreSQL of each connection that one of its threads takes.

Invariant: what a tick asks is answered by the indexes that were made for it. How much is planned or due changes a
hundredfold within seconds, and what the server knows of a table is a minute old: if it takes one for nearly empty,
each tick would read it as a whole until the server looks again. Duties of the upkeep read much, and are left to it.
"""

import threading

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper

from beat import aside

# What has to be sorted all the same seems to cost so much then that the server would make machine code for it.
_BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off;"
_AS_USUAL = "RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_sort; RESET jit;"


def tell(*, connection: BaseDatabaseWrapper, **_more: object) -> None:
    """As a receiver of Django's `connection_created`. All is said anew each time: threads share their connections."""
    if connection.vendor != "postgresql":
        return
    # A beat that is frozen between a lock and its commit must not hold the schedules of the others.
    limit_ms = int(settings.ONBEAT_BEAT_STUCK_AFTER_SECONDS * 1000)
    words = f"SET idle_in_transaction_session_timeout = {limit_ms};"
    if settings.DATABASE_PREPARES:  # or others get the connection next, who know nothing of it
        words += _BY_INDEX if _is_of_tick() else _AS_USUAL
    with connection.cursor() as cursor:
        cursor.execute(words)


def _is_of_tick() -> bool:
    thread = threading.current_thread()
    return thread is threading.main_thread() or thread.name.startswith(aside.NAME)
