"""In which tier a test runs, where once is enough for the test command and both are tried at length."""

import os

import pytest

# Marks of a test or a module; with TEST_LONG none, so that it runs in both tiers.
_IS_SHORT = not os.environ.get("TEST_LONG")
once_embedded = pytest.mark.embedded if _IS_SHORT else pytest.mark.filterwarnings()
once_full = pytest.mark.full if _IS_SHORT else pytest.mark.filterwarnings()
