"""The backlog program: it fills, drains and looks at every number, and says what it finds."""

import json

import pytest
from pamqp import commands

from bench.backlog import QUEUE, BacklogFailed, Wire, drain, main, publish_all
from bench.brokers import penstock_target


def test_a_small_backlog_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bytes", "2000000", "--limit", "2000000000"]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{\n") :])
    assert found["messages"] == 1953
    assert found["drain_mb_s"] > 0
    assert found["peak_rss_bytes"] > 10_000_000


def test_a_number_that_is_missing_is_found() -> None:
    broker = penstock_target().start()
    try:
        with Wire(broker.port) as wire:
            wire.ask(1, commands.Queue.Declare(queue=QUEUE), "Queue.DeclareOk")
            publish_all(wire, 40, 64, False)
            wire.ask(1, commands.Basic.Get(queue=QUEUE, no_ack=True), "Basic.GetOk")
        with (
            Wire(broker.port) as wire,
            pytest.raises(BacklogFailed, match="message 0 came as number 1"),
        ):
            drain(wire, 40, 64, False)
    finally:
        broker.stop()
