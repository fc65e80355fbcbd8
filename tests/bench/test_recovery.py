"""The recovery program: it fills queues, kills the broker, and counts what came back."""

import json

import pytest

from bench import recovery
from tests.patience import PATIENCE_S


def test_a_small_store_comes_back_after_a_kill_and_a_stop(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "START_S_MAX", PATIENCE_S)
    assert recovery.main(["--messages", "600", "--queues", "6"]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{\n") :])
    assert found["messages"] == 600
    assert 0 < found["after_kill"]["start_s"] < PATIENCE_S
    assert 0 < found["after_stop"]["start_s"] < PATIENCE_S
