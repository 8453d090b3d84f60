"""The verbs of `dead_letters`: look, and settle."""
