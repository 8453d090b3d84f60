"""Duties beside firing, each in a file of its own."""

from beat.upkeep import (
    audit,
    completions,
    dead_letters,
    figures,
    forecast,
    gone_beats,
    idempotent_answers,
    ledger,
    logins,
    lost_messages,
    notifications,
    pauses,
    queue_samples,
    rescue,
    results,
    run_keys,
    unheard,
)
from beat.upkeep import partitions as partitions_ahead
from beat.upkeep import retention as past_their_days
from beat.upkeep import statistics as hourly_counts

_MODULES = (
    rescue,
    lost_messages,
    dead_letters,
    pauses,
    unheard,
    notifications,
    completions,
    run_keys,
    gone_beats,
    results,
    audit,
    idempotent_answers,
    logins,
    queue_samples,
    forecast,
    figures,
    ledger,
)
DUTIES = tuple(module.DUTY for module in (*_MODULES, partitions_ahead, past_their_days, hourly_counts))
