"""The act with Spark: what the shop and its pipeline say, and the promises that rest on it."""

from dataclasses import replace

import pytest

from penstock.demo.spark_act import SparkActResult, example

CHECKED = (
    "3600 orders came, 3420 are good, 180 in quarantine",
    "    36 negative",
    "revenue 13555.17 in 3 minutes and currencies",
    "✔ every message is in bronze once",
    "✔ and in silver or quarantine once",
    "✔ gold is the sum of silver",
    "✔ every good order is billed once",
)
KEPT = SparkActResult(
    phases=(),
    names={},
    spark_rate=100.0,
    publish_rate=103.0,
    batches=100,
    explanation="shop-sell waits\n  because spark query orders-bronze (shop) holds 100 messages",
    sold=3600,
    back_s=9.0,
    checked=CHECKED,
    dead=("    36 negative", "   684 refused by the accountant", "   864 dead letters"),
)


def test_all_is_kept() -> None:
    assert [promise.state for promise in KEPT.promises()] == ["kept"] * 8


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"publish_rate": 120.0}, 0),
        ({"spark_rate": 0.0}, 0),
        ({"explanation": "shop-sell waits for the consumers of queue shop/orders"}, 1),
        ({"sold": 3601}, 2),
        ({"checked": (*CHECKED[:3], "✘ every message is in bronze once", *CHECKED[4:])}, 3),
        ({"checked": (*CHECKED[:6], "✘ every good order is billed once")}, 6),
        ({"dead": (KEPT.dead[0], KEPT.dead[1], "   865 dead letters")}, 7),
    ],
)
def test_each_promise_can_be_broken(change: dict[str, object], broken: int) -> None:
    states = [promise.state for promise in replace(KEPT, **change).promises()]  # type: ignore[arg-type]  # fields by name
    assert [at for at, state in enumerate(states) if state == "broken"] == [broken]


def test_a_burst_at_either_end_of_a_few_batches_is_within_their_pace() -> None:
    few = replace(KEPT, batches=10)
    states = [replace(few, publish_rate=rate).promises()[0].state for rate in (129.0, 131.0, 69.0)]
    assert states == ["kept", "broken", "broken"]


def test_tables_that_nobody_has_counted_break_their_promises() -> None:
    states = [promise.state for promise in replace(KEPT, checked=()).promises()]
    assert states == ["kept", "kept", "broken", "broken"]


def test_the_example_is_where_the_package_is() -> None:
    assert {"shop.py", "stream.py", "orders.py"} <= {file.name for file in example().iterdir()}
