"""What tests of commands share: one broker a module."""

from collections.abc import Iterator

import pytest

from tests.unit.cli.broker_process import BrokerProcess, broker_process


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """With the module's CONFIG, if it has one."""
    config = getattr(request.module, "CONFIG", "")
    with broker_process(tmp_path_factory.mktemp("broker"), config) as process:
        yield process
