"""One Spark session and one broker of each kind for all tests, or a reason why there is none."""

import gc
import importlib.util
import warnings
from collections.abc import Iterator

import pytest

from bench.brokers import RABBITMQ_MISSING, rabbitmq_target
from penstock.base.errors import OperatorError
from penstock.spark.java import JavaHome, find_java
from tests.conformance.live import Broker, penstock_process
from tests.spark.through_amqp import PATIENCE_MS

PATIENTLY = f"?connection_timeout={PATIENCE_MS}"


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """PySpark leaves sockets to the JVM behind, which are found as garbage when somebody else's
    test runs, unless they are looked for here."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


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
    from penstock.spark.session.session import open_session

    with open_session(java) as session:
        yield session


@pytest.fixture(scope="session")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Penstock of our own; every test uses names of its own."""
    with penstock_process(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def penstock_url(penstock: Broker) -> str:
    """Its address, with time for a machine that stands still."""
    return penstock.url + PATIENTLY


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """A RabbitMQ of our own; skips the test where it is not installed."""
    target = rabbitmq_target()
    if target is None:
        pytest.skip(RABBITMQ_MISSING)
    running = target.start()
    yield f"amqp://guest:guest@{running.host}:{running.port}{PATIENTLY}"
    running.stop()


@pytest.fixture(params=["penstock", "rabbitmq"])
def broker_url(request: pytest.FixtureRequest) -> str:
    """One broker after the other: the same test, only the address differs."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
