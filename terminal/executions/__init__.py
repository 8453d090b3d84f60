"""The verbs of `executions`, one module for each kind of thing that is asked for."""
