"""Targets: addresses of rivals, ports, and a process that does not become a broker."""

import socket
import sys
import tempfile
from pathlib import Path

import pytest

from bench.brokers import (
    LOOPBACK,
    BrokerFailed,
    answers_amqp,
    free_port,
    launch,
    penstock_environment,
    penstock_target,
    rival_target,
    rss_bytes,
)


def test_a_rival_is_named_by_its_address_or_its_query() -> None:
    assert rival_target("amqp://127.0.0.1:5673").name == "127.0.0.1:5673"
    assert rival_target("amqp://u:p@127.0.0.1:5673?name=other&pid=1").name == "other"


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:5672", "http://a:1", "amqp://host", "amqp://:1"]
)
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(BrokerFailed, match="--rival wants"):
        rival_target(address)


def test_a_rival_that_does_not_answer_is_refused() -> None:
    with pytest.raises(BrokerFailed, match="no AMQP answer"):
        rival_target(f"amqp://{LOOPBACK}:{free_port()}").start()


def test_a_closed_port_does_not_answer() -> None:
    assert not answers_amqp(LOOPBACK, free_port())


def test_a_peer_that_hangs_up_does_not_answer() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        probe = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.close()
        assert probe.recv(1) == b""
        probe.close()


def test_a_process_that_ends_at_once_is_reported_with_its_words(tmp_path: Path) -> None:
    directory = Path(tempfile.mkdtemp(dir=tmp_path))
    command = [sys.executable, "-c", "print('no such flag')"]
    with pytest.raises(BrokerFailed, match="no such flag"):
        launch("x", "1", command, penstock_environment(False, None), free_port(), directory)
    assert not directory.exists()


def test_an_interpreter_may_be_named_as_seen_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BrokerFailed, match=f"{tmp_path}/python cannot import penstock"):
        penstock_target("./python")
    with pytest.raises(BrokerFailed, match="nopython: no such program"):
        penstock_target("./nopython")


def test_only_a_checkout_brings_its_own_sources() -> None:
    assert "PYTHONPATH" not in penstock_environment(False, None)
    assert penstock_environment(True, None)["PYTHONPATH"].endswith("src")


def test_memory_of_no_process_is_nothing() -> None:
    assert rss_bytes(2**22 + 1) == 0
