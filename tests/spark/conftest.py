"""One Spark session for all tests, or a reason why there is none."""

import importlib.util
from collections.abc import Iterator

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.java import JavaHome, find_java


@pytest.fixture(scope="session")
def java() -> JavaHome:
    """A Java that Spark starts on; skips the test where there is none."""
    for name in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    try:
        return find_java()
    except OperatorError as fault:
        pytest.skip(str(fault))


@pytest.fixture(scope="session")
def spark(java: JavaHome) -> Iterator[object]:
    """The session of the pipeline itself, with its own settings."""
    # Imported here, because without PySpark these tests must still be collected and skipped.
    from penstock.spark.session import open_session

    with open_session(java) as session:
        yield session
