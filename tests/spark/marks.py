"""Marks of tests with PySpark in their process, and of those that start its Java machine too."""

from typing import Final

import pytest

READERS: Final = [
    pytest.mark.slow,
    # PySpark's own import.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

IN_SPARK: Final = [
    pytest.mark.spark,
    pytest.mark.slow,
    # PySpark 4.3 leaves its own sockets and deprecated calls behind.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]
