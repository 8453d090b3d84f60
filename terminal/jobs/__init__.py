"""The verbs of `jobs`, one module for each kind of thing that is asked for."""
