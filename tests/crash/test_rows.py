"""Every row F1 to F24 of the failure list has a test under its number, which pytest collects.

The list, with what goes wrong and what has to hold, is in docs/failures.md."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FOLDERS = (Path(__file__).parent, Path(__file__).parent.parent / "unit")
LAST = 24
NAME = re.compile(r"test((?:_f\d\d)+)_[a-z0-9]")
ROW = re.compile(r"^\| F(\d+) \|", re.MULTILINE)


def rows_of(text: str) -> Iterator[int]:
    """The rows that the test functions of one file name: `test_f04_f17_words` is for two."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and (match := NAME.match(node.name)):
            for part in match[1].split("_f")[1:]:
                yield int(part)


@cache
def files_with_rows() -> dict[Path, frozenset[int]]:
    found = {}
    for folder in FOLDERS:
        for path in folder.rglob("test_*.py"):
            rows = frozenset(rows_of(path.read_text(encoding="utf-8")))
            if rows:
                found[path] = rows
    return found


def test_every_row_has_a_test_that_is_collected() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        + [str(path) for path in files_with_rows()],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=FOLDERS[0].parent.parent,
    ).stdout
    names = set(re.findall(r"::(test_f\d\d\w+)", listed))
    text = "".join(f"def {name}() -> None: ...\n" for name in names)
    missing = sorted(set(range(1, LAST + 1)) - set(rows_of(text)))
    assert not missing, f"no test_fNN in tests/crash or tests/unit for rows {missing}"


def test_there_are_no_other_rows() -> None:
    assert not frozenset().union(*files_with_rows().values()) - set(range(1, LAST + 1))


def test_the_page_has_every_row_once() -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "failures.md"
    rows = [int(number) for number in ROW.findall(page.read_text(encoding="utf-8"))]
    assert rows == list(range(1, LAST + 1))


def test_names_are_read_as_they_are_meant() -> None:
    text = "def test_f04_f17_words() -> None: ...\ndef test_f1_none() -> None: ...\n"
    assert list(rows_of(text)) == [4, 17]
