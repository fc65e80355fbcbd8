"""The less room, the sooner: the numbers of scenario 75 and the ends of the scale."""

import pytest

from penstock.flow.watermark import next_look_ms


@pytest.mark.parametrize(
    ("free", "limit", "is_alarmed", "wait_ms"),
    [
        (1_050_000_000, 50_000_000, False, 8_000),
        (60_000_000, 50_000_000, False, 100),
        (1 << 50, 50_000_000, False, 10_000),
        (50_000_000, 50_000_000, False, 100),
        (49_000_000, 50_000_000, False, 100),
        (49_000_000, 50_000_000, True, 10_000),
        (1 << 50, 50_000_000, True, 10_000),
        (550_000_000, 50_000_000, False, 4_000),
    ],
)
def test_next_look(free: int, limit: int, is_alarmed: bool, wait_ms: int) -> None:
    assert next_look_ms(free, limit, is_alarmed) == wait_ms
