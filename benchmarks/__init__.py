"""Figures that anyone can repeat: `python -m benchmarks NAME [--json]`. The last line of --json is one JSON object."""
