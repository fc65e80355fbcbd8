"""`python -m penstock.simulation`: what is wrong on its command line is told in words."""

import pytest
from click.testing import CliRunner

from penstock.simulation.__main__ import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "random_graph", "--without", "3,x"), "'3,x' is no list of numbers"),
        (("run", "random_graph", "--check-every", "0"), "0 is not in the range x>=1"),
        (("sweep", "--check-every", "0"), "0 is not in the range x>=1"),
        (("cluster", "--seeds", "0"), "0 is not in the range x>=1"),
    ],
)
def test_wrong_options(words: tuple[str, ...], said: str) -> None:
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 2 and said in found.output


def test_a_time_that_is_no_number_ends() -> None:
    found = CliRunner().invoke(main, ["sweep", "--seconds", "nan", "--graphs", "1"])
    assert found.exit_code == 0 and "0 failures" in found.output
