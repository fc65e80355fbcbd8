"""The count of calls: that it runs, and what the way to the disk and back may cost."""

import pytest

from bench.call_count import counted, main
from penstock.storage.log.log import MessageLog

pytestmark = pytest.mark.skipif(
    type(MessageLog.append).__name__ != "function", reason="calls of compiled code are not seen"
)


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--smoke"]) == 0
    assert "calls a message, in batches of 10" in capsys.readouterr().out


def test_a_message_in_a_batch_costs_the_store_few_calls() -> None:
    """Record, checksum, index, batch, confirm and settlement: what is done for each message by
    itself would show as one call each."""
    counts = counted(100, 3)
    own = sum(n for name, n in counts.items() if name.startswith(("storage/", "broker/store/")))
    assert own / 300 < 4
