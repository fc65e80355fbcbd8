"""How many files and calls one durable message passes through: what was won is not lost again."""

import pytest

from bench.call_walk import walk
from penstock.broker.actors import actor
from scripts.show_build import is_compiled

FILES_MOST = 43
JUMPS_MOST = 212
CALLS_IN_BATCH_MOST = 8.5
STORE_CALLS_IN_BATCH_MOST = 3.0
"""Record, checksum, index, batch, confirm and settlement: what is done for each message by itself
would show as one call each."""


@pytest.mark.skipif(is_compiled(actor.__name__), reason="compiled calls are not counted")
def test_the_way_of_a_message_stays_short() -> None:
    one, many = walk(1), walk(100)
    assert one.calls[0][0] == "broker/connection/connection", "it begins with the bytes"
    assert len(one.files) <= FILES_MOST and one.jumps <= JUMPS_MOST
    assert len(many.calls) / 100 <= CALLS_IN_BATCH_MOST
    store = sum(file.startswith(("storage/", "broker/store/")) for file, _ in many.calls)
    assert store / 100 <= STORE_CALLS_IN_BATCH_MOST
