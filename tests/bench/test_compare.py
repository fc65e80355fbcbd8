"""Comparing two runs: synthetic repeats with known noise, known changes, and a slow hour."""

import json
import math
import random
from pathlib import Path

import pytest

from bench.brokers import LIMIT
from bench.compare import (
    BETTER,
    FEW,
    ONCE,
    SAME,
    WORSE,
    Change,
    NotComparableError,
    compare,
    differences,
    interval,
    main,
)
from tests.bench.programs import refuses

OURS = "penstock-compiled"
NOISE = 0.04


def run(rate: float, cpu_us: float, p99_us: float = 500.0) -> dict[str, object]:
    """One repeat, as bench/run.py writes it."""
    return {
        "rate": rate,
        "cpu_us": cpu_us,
        "latency_us": [100.0, p99_us, 900.0],
        "rss_max_mb": 80.0,
    }


def measured(
    chance: random.Random, repeats: int, speed: float = 1.0, hour: float = 1.0, relay: bool = True
) -> dict[str, object]:
    """A file: one row of a broker of 100,000/s and 5 µs, `speed` times as fast, in an hour that is
    `hour` times as fast; the noise of each repeat hits the broker alone."""
    runs, relays = [], []
    for _ in range(repeats):
        noise = math.exp(chance.gauss(0, NOISE))
        runs.append(run(1e5 * speed * hour * noise, 5.0 / (speed * hour * noise)))
        relays.append(run(3e5 * hour, 1.0 / hour))
    row: dict[str, object] = {"question": "how fast?", OURS: {"runs": runs}}
    if relay:
        row[LIMIT] = {"runs": relays}
    return {"machine": {"cores": 2, "when": "x"}, "versions": {OURS: "1"}, "rows": {"a16": row}}


def verdicts(changes: list[Change], target: str = OURS) -> dict[str, str]:
    return {one.figure: one.verdict for one in changes if one.target == target}


def test_a_change_of_a_fifth_is_seen_and_called_by_its_direction() -> None:
    before = measured(random.Random(1), 8)
    found = verdicts(compare(before, measured(random.Random(2), 8, speed=0.8)))
    assert found == {"rate": WORSE, "cpu_us": WORSE, "rss_max_mb": SAME}
    found = verdicts(compare(before, measured(random.Random(3), 8, speed=1.25)))
    assert found == {"rate": BETTER, "cpu_us": BETTER, "rss_max_mb": SAME}


def test_a_slow_hour_is_no_change_where_the_relay_was_slowed_as_well() -> None:
    before, after = measured(random.Random(1), 8), measured(random.Random(2), 8, hour=0.5)
    changes = compare(before, after)
    assert verdicts(changes)["rate"] == SAME
    assert next(one for one in changes if one.figure == "rate").by_relay
    assert verdicts(changes, LIMIT)["rate"] == WORSE, "its own figures are shown as they are"
    before = measured(random.Random(1), 8, relay=False)
    after = measured(random.Random(2), 8, hour=0.5, relay=False)
    assert verdicts(compare(before, after))["rate"] == WORSE, (
        "and without it nothing tells them apart"
    )


def test_noise_alone_is_seldom_called_a_change() -> None:
    chance = random.Random(7)
    alarms = 0
    for seed in range(100):
        sides = [[chance.gauss(0, NOISE) for _ in range(6)] for _ in range(2)]
        _, low, high = interval(sides[0], sides[1], 0.99, seed)
        alarms += not low <= 0.0 <= high
    # 1 % is meant; six values a side are few, and 5 of 100 are seen once in 300 times.
    assert alarms <= 5


def test_the_interval_holds_the_true_change() -> None:
    chance = random.Random(11)
    inside = 0
    for seed in range(60):
        before = [chance.gauss(0.0, NOISE) for _ in range(8)]
        after = [chance.gauss(0.1, NOISE) for _ in range(8)]
        found, low, high = interval(before, after, 0.95, seed)
        assert low <= found <= high
        inside += low <= 0.1 <= high
    assert inside >= 52


def test_a_change_too_small_to_matter_is_not_told() -> None:
    before, after = measured(random.Random(1), 8), measured(random.Random(1), 8, speed=1.2)
    assert verdicts(compare(before, after, least=0.25))["rate"] == SAME


def test_few_repeats_are_shown_and_not_judged() -> None:
    changes = compare(measured(random.Random(1), 3), measured(random.Random(2), 3, speed=0.5))
    assert set(verdicts(changes).values()) == {FEW}
    rate = next(one for one in changes if one.figure == "rate")
    assert rate.ratio == pytest.approx(0.5, rel=0.1)


def test_a_repeat_that_failed_takes_its_neighbour_with_it_and_no_other() -> None:
    before, after = measured(random.Random(1), 8), measured(random.Random(2), 8)
    rows = after["rows"]
    assert isinstance(rows, dict)
    rows["a16"][OURS]["runs"][2] = None
    assert verdicts(compare(before, after))["rate"] == SAME


def test_of_a_set_rate_the_latency_counts_and_not_the_rate() -> None:
    def paced(factor: float) -> dict[str, object]:
        runs = [run(20_000, 2.0 + 0.01 * n, factor * (500 + n)) for n in range(6)]
        return {"rows": {"fixed20k": {OURS: {"runs": runs}}}}

    assert verdicts(compare(paced(1.0), paced(3.0))) == {
        "cpu_us": SAME,
        "p99_us": WORSE,
        "rss_max_mb": SAME,
    }


def test_what_is_measured_once_has_no_interval() -> None:
    def held(value: float) -> dict[str, object]:
        return {"rows": {"memory": {OURS: {"values": {"bytes_per_16b": value}}}}}

    changes = compare(held(200.0), held(100.0))
    assert [(one.figure, one.verdict, one.ratio) for one in changes] == [
        ("bytes_per_16b", ONCE, 0.5)
    ]


def test_another_machine_or_version_is_said() -> None:
    before, after = measured(random.Random(1), 2), measured(random.Random(1), 2)
    after["machine"] = {"cores": 4, "when": "y"}
    after["versions"] = {OURS: "2"}
    assert differences(before, after) == ["cores: 2, then 4", f"{OURS}: 1, then 2"]


def test_files_without_anything_in_common_are_refused() -> None:
    with pytest.raises(NotComparableError, match="no row in common"):
        compare(measured(random.Random(1), 2), {"rows": {"pp": {}}})
    with pytest.raises(NotComparableError, match="have to be of"):
        compare({}, {"rows": {}})


def test_the_program_says_what_is_worse_and_fails_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tmp_path / name) for name in ("before.json", "after.json")]
    for name, speed in zip(names, (1.0, 0.7), strict=True):
        text = json.dumps(measured(random.Random(int(10 * speed)), 8, speed))
        Path(name).write_text(text, encoding="utf-8")
    assert main(names) == 0
    output = capsys.readouterr().out
    assert f"WORSE: a16       {OURS}  messages/s, by the relay: -" in output
    assert main([*names, "--fail"]) == 1
    assert main([names[0], str(tmp_path / "missing.json")]) == 2


def test_options_that_make_no_sense_are_refused() -> None:
    refuses(main, "a b --level 1.5", "a b --least -1", "a")
