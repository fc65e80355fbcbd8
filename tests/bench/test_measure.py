"""Reading the generator: its result line, its refusals, and its own compilation."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from bench.measure import (
    COUNTS,
    RunFailed,
    Sample,
    always,
    build_generator,
    forget_generator,
    parse_sample,
    probe_sync,
    run_lines,
)

RESULT = {
    "secs": 2.0,
    "got_rate": 10.0,
    "pub_rate": 11.0,
    "cpu_s_per_M": 3.0,
    "broker_cpu": 4.0,
    "broker_sys": 1.0,
    "gen_cpu": 0.5,
    "held_share": 0.25,
    "rss0_mb": 1.0,
    "rssmax_mb": 2.0,
    "lat_us": {"p50": 1, "p99": 2, "p999": 3},
    "conf_us": {"p50": 4, "p99": 5, "p999": 6},
    "per_consumer": [1, 2],
    **{name: index for index, name in enumerate(COUNTS)},
}


def test_a_result_line_becomes_a_sample() -> None:
    sample = parse_sample(json.dumps(RESULT))
    assert sample.kernel_share == 0.25
    assert sample.generator_share == 0.25
    assert sample.latency_us == (1, 2, 3)
    assert sample.per_consumer == (1, 2)
    assert {name: getattr(sample, name) for name in COUNTS} == {
        name: index for index, name in enumerate(COUNTS)
    }
    assert set(COUNTS) <= {field.name for field in fields(Sample)}


@pytest.mark.parametrize("missing", sorted(RESULT))
def test_an_incomplete_line_is_refused(missing: str) -> None:
    line = json.dumps({key: value for key, value in RESULT.items() if key != missing})
    with pytest.raises(RunFailed):
        parse_sample(line)


@pytest.mark.parametrize("line", ["", "nonsense", "[]", '{"t":1.0}'])
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(RunFailed):
        parse_sample(line)


def test_a_failing_program_is_reported_with_its_words() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('broker closed')"]
    with pytest.raises(RunFailed, match="broker closed"):
        run_lines(command, 60.0, always)


def test_a_watch_ends_the_run() -> None:
    text = "import time; print('{\"t\": 1.0}', flush=True); time.sleep(60)"
    lines = run_lines([sys.executable, "-c", text], 30.0, lambda point: point["t"] < 1.0)
    assert lines == ['{"t": 1.0}\n']


@pytest.mark.slow
def test_the_generator_compiles_and_explains_itself() -> None:
    program = build_generator()
    try:
        disk = probe_sync(program, 20.0, 5000.0)
        assert 0 < disk.sync_us[0] <= disk.sync_us[1]
        assert 0 < disk.ideal_us[0] <= disk.ideal_us[1]
        with pytest.raises(RunFailed, match="RATE is above 0"):
            probe_sync(program, 20.0, 1e12)
        asked = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
        for option in ("--mixed", "--idle", "--confirm", "--stall", "--queue-type"):
            assert option in asked.stdout
    finally:
        forget_generator(program)
