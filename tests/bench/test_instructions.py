"""The program that counts what a message costs: all of its messages arrive."""

from bench.instructions import ROWS
from tests.bench.programs import output_of


def test_every_row_is_worked_through() -> None:
    said = output_of("instructions.py", "--smoke")
    assert [line.partition(":")[0] for line in said.splitlines()] == list(ROWS)
