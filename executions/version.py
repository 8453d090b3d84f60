"""The version of this release, as in pyproject.toml."""

VERSION = "0.1.0"
