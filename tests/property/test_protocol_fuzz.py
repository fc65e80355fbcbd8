"""A short, fixed run of the codec fuzzer, so that the fuzzer itself does not rot."""

import pytest

from fuzz.codec import TARGETS, run


@pytest.mark.parametrize("seed", [1, 2])
def test_a_short_run_finds_nothing(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(60.0, seed, count_max=500) == 0
    assert f"seed {seed}: 500 inputs" in capsys.readouterr().out


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 40], ids=["none", "zero", "ones"])
def test_the_smallest_inputs_find_nothing(name: str, data: bytes) -> None:
    TARGETS[name][1](data)
