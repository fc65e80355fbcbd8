"""The benchmark of the HTTP API: what it makes of times, and that it runs."""

import pytest

from bench import http_load
from bench.http_load import CASES, Seen, is_within, line, main, parsed, percentile

PAGE, SCRAPE = CASES


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentile([], 0.99) == 0.0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(one) for one in range(100)], 0.99) == 99.0


def test_a_slow_page_and_a_client_that_is_held_up_miss_the_goal() -> None:
    good = Seen([10.0] * 100, [1.0, 1.2], [1.5, 1.9], 100)
    assert is_within(PAGE, good) and "within" in line(PAGE, good)
    assert not is_within(PAGE, Seen([200.0] * 100, [1.0], [1.5], 100))
    # How long a scrape takes is of no matter, what it does to a client is.
    assert is_within(SCRAPE, Seen([200.0] * 100, [1.0], [1.5], 100))
    held = Seen([10.0] * 100, [1.0, 1.0, 1.0], [2.5, 2.5, 1.0], 100)
    assert not is_within(SCRAPE, held) and "ABOVE" in line(SCRAPE, held)


def test_numbers_that_make_no_sense_are_refused() -> None:
    for words in (["--only", "nothing"], ["--repeats", "0"], ["--seconds", "0"]):
        with pytest.raises(SystemExit):
            parsed(words)


@pytest.mark.slow
def test_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_load, "SMOKE", {"queues": 5, "connections": 4, "pause_s": 0.05})
    assert main(["--smoke"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "page " in said and "scrape " in said and " 0 requests" not in said
