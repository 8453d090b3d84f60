"""In which tier a test runs, where once is enough for the test command and both are tried at length."""

import os
from collections.abc import Callable
from typing import Any

import pytest


def _unless_long(mark: pytest.MarkDecorator) -> Callable[[Any], Any]:
    """The mark; with TEST_LONG none, so that the test runs in both tiers."""
    return (lambda test: test) if os.environ.get("TEST_LONG") else mark


once_embedded = _unless_long(pytest.mark.embedded)
once_full = _unless_long(pytest.mark.full)
