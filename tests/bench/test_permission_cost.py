"""The program that counts what permissions cost: its messages arrive, whatever its user may do."""

from bench.permission_cost import ROWS
from tests.bench.programs import output_of


def test_every_row_is_worked_through() -> None:
    said = output_of("permission_cost.py", "--smoke")
    assert [line.partition(":")[0] for line in said.splitlines()] == list(ROWS)
