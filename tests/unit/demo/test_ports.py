"""A port is free, or its owner is named with the way out."""

import os
import socket

import pytest

from penstock.base.errors import OperatorError
from penstock.demo.children import HOST, choose_port


def test_zero_gives_a_free_port() -> None:
    assert 0 < choose_port(0) < 65_536


def test_a_taken_port_names_its_owner_and_the_fix() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(OperatorError) as caught:
            choose_port(taken.getsockname()[1])
    assert f"pid {os.getpid()}" in str(caught.value)
    assert "penstock run --port 0" in str(caught.value)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(OperatorError, match="does not exist"):
        choose_port(port)
