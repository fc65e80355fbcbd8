"""The page of a result: charts with bars where they belong, nothing in it that is not text."""

import json
import re
from pathlib import Path

from bench.page import LEFT, WIDTH, main, page

SPREAD = {"median": 0.5, "low": 0.4, "high": 0.75}
RUN = {"rate": 1e5, "load_average": 0.5}
MEDIAN = {"rate": 1e5, "cpu_us": 2.0, "kernel_share": 0.4, "p50_us": 90.0, "p99_us": 900.0}
RESULT = {
    "machine": {"processor": "<fast> & loud", "cores": 2},
    "versions": {"penstock-compiled": "1 compiled", "limit": "the relay"},
    "rows": {
        "a16": {
            "question": "?",
            "penstock-compiled": {
                "runs": [RUN, None],
                "median": MEDIAN,
                "ratios": {"limit": {"rate_ratio": SPREAD}, "rabbitmq": {"cpu_ratio": SPREAD}},
            },
        },
        "memory": {"penstock-compiled": {"values": {"idle_mb": 40.0}}},
    },
    "faults": [],
}


def test_a_bar_is_as_long_as_the_median_and_its_goal_is_marked() -> None:
    drawn = page(RESULT)
    assert f'width="{WIDTH * 0.5:.1f}"' in drawn
    goal = re.search(r'<line x1="([\d.]+)"[^>]*stroke="#2a9d5c"', drawn)
    assert goal is not None and float(goal[1]) == LEFT + 0.35 * WIDTH
    assert "multiple of RabbitMQ" in drawn and "idle_mb 40" in drawn


def test_what_was_measured_is_text_and_never_markup() -> None:
    drawn = page(RESULT)
    assert "&lt;fast&gt; &amp; loud" in drawn and "<fast>" not in drawn
    assert "http" not in drawn, "the page needs nothing from anywhere else"


def test_parts_are_shown_and_end_in_the_one_file(tmp_path: Path) -> None:
    result, drawn = tmp_path / "result.json", tmp_path / "page.html"
    result.write_text(json.dumps(RESULT), encoding="utf-8")
    tail = {"p50_us": 9, "p99_us": 80, "p999_us": 900, "longest_us": 12_345, "rate": 20_000}
    calls = {"calls": {"sendto": 1.5, "brk": 0.001}, "wake_ups": 0.25}
    parts = {
        "features": {"a16": {"costs": {"tls": [0.5, 0.25, 0.75]}, "runs_us": {}}},
        "tails": {"idle": {"limit": tail}},
        "system-calls": {"pp": {"limit": calls}},
    }
    paths = []
    for name, rows in parts.items():
        paths.append(str(tmp_path / f"{name}.json"))
        Path(paths[-1]).write_text(json.dumps({"rows": rows}), encoding="utf-8")
    assert main([str(result), str(drawn), *paths]) == 0
    text = drawn.read_text(encoding="utf-8")
    assert "+50.0 %" in text and "12.3ms" in text and "sendto 1.50" in text and "brk" not in text
    assert set(json.loads(result.read_text(encoding="utf-8"))["parts"]) == set(parts)
    assert main([str(result), str(drawn), str(result)]) == 2, "no part of that name"


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    wrong, right = tmp_path / "wrong.json", tmp_path / "right.json"
    wrong.write_text("[]", encoding="utf-8")
    right.write_text(json.dumps(RESULT), encoding="utf-8")
    assert main([str(wrong), str(tmp_path / "page.html")]) == 2
    assert main([]) == 2
    assert main([str(right), str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page(RESULT)
