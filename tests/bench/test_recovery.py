"""The recovery program: it fills queues, kills the broker, and counts what came back."""

import json

import pytest

from bench.recovery import main


def test_a_small_store_comes_back_after_a_kill_and_a_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--messages", "600", "--queues", "6"]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{\n") :])
    assert found["messages"] == 600
    assert 0 < found["after_kill"]["start_s"] < 30
    assert 0 < found["after_stop"]["start_s"] < 30
