"""What the way to the disk and back may cost of calls, as bench/call_walk counts them."""

import pytest

from bench.call_walk import walk
from penstock.storage.log.log import MessageLog

pytestmark = pytest.mark.skipif(
    type(MessageLog.append).__name__ != "function", reason="calls of compiled code are not seen"
)


def test_a_message_in_a_batch_costs_the_store_few_calls() -> None:
    """Record, checksum, index, batch, confirm and settlement: what is done for each message by
    itself would show as one call each."""
    calls = walk(100).calls
    own = sum(file.startswith(("storage/", "broker/store/")) for file, _ in calls)
    assert own / 100 < 6
