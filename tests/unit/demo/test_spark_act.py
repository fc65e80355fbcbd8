"""The act with Spark: pace, rows, and the promises that rest on them."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.demo.spark_act import Sight, SparkActResult, pace, published, rows

SEEN = [
    Sight(confirmed=100, at_ns=1_000_000_000, batches=4, began_ns=1_100_000_000),
    Sight(confirmed=500, at_ns=2_000_000_000, batches=6, began_ns=2_100_000_000),
    Sight(confirmed=1300, at_ns=4_000_000_000, batches=10, began_ns=4_100_000_000),
]
KEPT = SparkActResult(
    phases=(),
    names={},
    spark_rate=400.0,
    publish_rate=410.0,
    explanation="publisher waits\n  because spark query leased holds 200 messages",
    confirmed=1300,
    leased=(1300, 1300),
    streamed=(1300, 1300),
)


def test_the_pace_of_spark_is_rows_of_a_batch_by_the_time_between_batches() -> None:
    assert pace(SEEN, 200) == pytest.approx(200 * 6 / 3.0)


def test_the_publishers_rate_is_by_its_own_clock() -> None:
    assert published(SEEN) == pytest.approx(1200 / 3.0)


def test_all_is_kept() -> None:
    assert [promise.state for promise in KEPT.promises()] == ["kept"] * 4


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"publish_rate": 500.0}, 0),
        ({"spark_rate": 0.0}, 0),
        ({"leased": (1300, 1299)}, 1),
        ({"leased": (1299, 1299)}, 1),
        ({"streamed": (1301, 1300)}, 2),
        ({"explanation": "publisher waits for queue 'payments'"}, 3),
    ],
)
def test_each_promise_can_be_broken(change: dict[str, object], broken: int) -> None:
    states = [promise.state for promise in replace(KEPT, **change).promises()]  # type: ignore[arg-type]  # fields by name
    assert [at for at, state in enumerate(states) if state == "broken"] == [broken]


def test_rows_are_counted_over_all_batches(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for batch, ids in enumerate((["a", "b"], ["b", "c"])):
        folder = tmp_path / f"batch={batch}"
        folder.mkdir()
        pq.write_table(pa.table({"id": ids}), folder / "part.parquet")
    assert rows(tmp_path) == (4, 3)
