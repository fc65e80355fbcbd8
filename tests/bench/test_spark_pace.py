"""The verdict on the pace: what came by what was taken, and whether every row came once."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pika")

from bench.spark_pace import Sink, report


def sunk(came: list[int], spans: list[tuple[int, int]]) -> Sink:
    """A sink that began a batch every second, with `came` messages in the stream then."""
    sink = Sink.__new__(Sink)
    sink.began = [(float(second), count) for second, count in enumerate(came)]
    sink.spans = spans
    sink.rows = sum(stop - first for first, stop in spans)
    return sink


def test_the_pace_is_compared_from_batch_to_batch(capsys: pytest.CaptureFixture[str]) -> None:
    steady = sunk([100 * n for n in range(10)], [(0, 500), (500, 1000)])
    assert report(steady, 1000, 100, False) == 0
    assert "B/T 100 messages/s" in capsys.readouterr().out
    ahead = sunk([120 * n for n in range(10)], [(0, 500), (500, 1000)])
    assert report(ahead, 1000, 100, False) == 1
    assert report(ahead, 1000, 100, True) == 0, "a smoke run has no verdict on the pace"


@pytest.mark.parametrize("spans", [[(0, 500), (501, 1001)], [(0, 500), (499, 999)], [(0, 999)]])
def test_a_row_that_is_lost_or_comes_twice_is_a_failure(spans: list[tuple[int, int]]) -> None:
    assert report(sunk([100 * n for n in range(10)], spans), 1000, 100, True) == 1
