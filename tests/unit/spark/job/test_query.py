"""Ctrl-C while a query runs: asked for at first, and as before at the second time."""

import os
import signal

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from penstock.spark.job.query import interrupts


def test_the_first_interrupt_asks_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interrupts() as is_asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert is_asked.wait(5)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            is_asked.wait(0)
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
