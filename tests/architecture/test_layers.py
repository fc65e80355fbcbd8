"""Every test file has a layer, every entry of the table has tests, and every layer has a target."""

from pathlib import Path

from tests.architecture.house import PACKAGE, REPOSITORY, compiled_files
from tests.layers import (
    COMPILED,
    COMPILED_AT_ONCE,
    COMPILED_LONG,
    COMPILED_TOO,
    LAYER_OF,
    LONGEST_FIRST,
    NOT_COMPILED,
    NOT_FOR_EVERY_CHANGE,
    ON_COMPILED,
    TESTS,
    WHAT,
    is_in,
    layer_of,
    turn_of,
)


def all_test_files() -> list[Path]:
    return sorted(TESTS.rglob("test_*.py"))


def test_every_test_file_runs_in_one_layer() -> None:
    homeless = [str(file) for file in all_test_files() if layer_of(file) not in WHAT]
    assert not homeless
    for file in all_test_files():
        assert sum(is_in(layer, file) for layer in WHAT) == 1, file


def test_the_table_names_what_is_there() -> None:
    places = (*LAYER_OF, *COMPILED_TOO, *COMPILED_AT_ONCE, *NOT_COMPILED, *LONGEST_FIRST)
    assert [place for place in places if not (TESTS / place).exists()] == []


def test_the_longest_files_go_first() -> None:
    assert all((TESTS / place).is_file() for place in LONGEST_FIRST)
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)
    long, longer = (TESTS / LONGEST_FIRST[at] for at in (1, 0))
    other = TESTS / "architecture" / "test_layers.py"
    turns = [(other, 1), (other, 9), (long, 1), (longer, 1)]
    assert sorted(turns, key=lambda one: turn_of(*one)) == turns[::-1]
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    # Without it pytest-xdist has an order of its own, by the number of tests.
    assert " --no-loadscope-reorder\n" in makefile.partition("\nWORKERS ?= ")[2]


def test_what_is_compiled_runs_in_one_layer_of_that_build() -> None:
    for file in all_test_files():
        assert not (is_in(COMPILED, file) and is_in(COMPILED_LONG, file)), file
    assert any(is_in(COMPILED_LONG, file) for file in all_test_files())


def test_every_compiled_room_is_tested_compiled() -> None:
    rooms = {file.relative_to(PACKAGE).parts[0] for file in compiled_files()}
    assert [room for room in sorted(rooms) if f"unit/{room}" not in COMPILED_TOO] == []


def test_every_layer_is_run() -> None:
    """A layer that nobody runs is no layer: each has a target, which .ci/run runs, or at least
    `make test-all`."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    steps = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    everything = makefile.partition("\ntest-all: ")[2].partition("\n")[0].split()
    for layer in (*WHAT, COMPILED, COMPILED_LONG):
        target = "test" if layer == "core" else f"test-{layer}"
        build = "compiled" if layer in ON_COMPILED else "interpreted"
        rule = makefile.partition(f"\n{target}: ")[2].partition("\n\n")[0]
        assert f"PENSTOCK_TEST_BUILD={build} " in rule and f"--layer {layer} " in rule, target
        assert target in everything
        is_step = f" {target} " in f" {' '.join(steps.split())} "
        assert is_step == (layer not in NOT_FOR_EVERY_CHANGE), target
