"""Duties beside firing, each in a file of its own."""

from beat.upkeep import completions, gone_beats, lost_messages, partitions, pauses, rescue, run_keys

DUTIES = tuple(module.DUTY for module in (rescue, lost_messages, pauses, completions, run_keys, gone_beats, partitions))
