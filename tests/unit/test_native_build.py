"""Compiling: what is done again after which change, and that the result is the same program."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import native_build
from native_build import Declarations, Unit, build, forget_old, pieces, set_key

HEADER = """
#include <Python.h>
extern PyObject *CPyStatics[7];
typedef struct {
    PyObject_HEAD
    CPyTagged _count;
} penstock___a___CellObject;
typedef struct {
    PyObject_HEAD
    penstock___a___CellObject *_cell;
} penstock___b___BoxObject;
CPyTagged CPyDef_a___Cell___size(PyObject *cpy_r_self);
PyObject *CPyDef_b___open(penstock___b___BoxObject *box);
"""


def test_a_header_is_cut_between_declarations() -> None:
    assert "".join(pieces(HEADER)) == HEADER
    starts = [piece.split("(")[0].strip() for piece in pieces(HEADER) if "CPyDef" in piece]
    assert starts == ["CPyTagged CPyDef_a___Cell___size", "PyObject *CPyDef_b___open"]


def test_a_file_depends_on_what_it_names_and_on_what_that_needs() -> None:
    declarations = Declarations(HEADER)
    needed = declarations.needed_by("x = CPyDef_b___open(box);")
    assert "BoxObject;" in needed and "CellObject;" in needed, "a box holds a cell"
    assert "Cell___size" not in needed
    alone = declarations.needed_by("nothing of ours")
    assert "#include <Python.h>" in alone and "Object;" not in alone


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / str(number)
        path.write_text("")
        os.utime(path, (number, number))
    forget_old(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]


SOURCES = {
    "__init__.py": "",
    "cell.py": """
from penstock.names import NAME


class Cell:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, more: int) -> str:
        self.count += more
        return NAME + " holds"
""",
    "box.py": """
from penstock.cell import Cell


def fill(times: int) -> tuple[str, int]:
    cell = Cell()
    said = ""
    for _ in range(times):
        said = cell.add(2)
    return said + " two each", cell.count
""",
    "names.py": 'NAME = "a cell"\n',
    "command.py": "from penstock.box import fill\n\nprint(fill(21))\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package in which box and cell are compiled, names and command are not."""
    folder = tmp_path / "src" / "penstock"
    folder.mkdir(parents=True)
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", "src")
    yield tmp_path


def listed() -> list[Path]:
    return [Path("src/penstock/cell.py"), Path("src/penstock/box.py")]


def test_the_key_covers_all_that_the_compiled_modules_import(tree: Path) -> None:
    def key() -> str:
        return set_key(listed(), tree / "src", "tools")

    first = key()
    (tree / "src/penstock/command.py").write_text("print('another')\n")
    assert key() == first, "no compiled module imports it"
    (tree / "src/penstock/names.py").write_text('NAME = "one cell"\n')
    assert key() != first
    assert set_key(listed(), tree / "src", "other tools") != key()


@pytest.mark.slow
def test_after_a_change_only_what_came_out_different_is_compiled(tree: Path) -> None:
    """And the compiled program says what the plain one says, each time."""
    pytest.importorskip("mypyc", reason="the compiled environment has no compiler of its own")
    said: list[str] = []
    first = build(listed(), tree, said.append)
    assert run(first, tree) == run(None, tree) == "('a cell holds two each', 42)\n"
    units = compiled(said)
    assert build(listed(), tree, said.append) == first
    assert said[-1] == "2 modules are compiled already"
    cell = tree / "src/penstock/cell.py"
    cell.write_text(cell.read_text().replace('" holds"', '" now" + " really" + " holds"'))
    second = build(listed(), tree, said.append)
    assert run(second, tree) == run(None, tree)
    # The changed module and the file of the group, which has all constants: not the other module.
    assert units[1] >= 4 and units[0] == units[1]
    assert compiled(said)[0] == 2


def compiled(said: list[str]) -> tuple[int, int]:
    """How many C files were compiled, and how many there are."""
    words = said[-1].split()
    return int(words[1]), int(words[3])


def run(made: Path | None, tree: Path) -> str:
    """What the command prints, with compiled modules in front of the plain ones."""
    package = tree / "package"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(tree / "src", package)
    if made is not None:
        shutil.copytree(made, package, dirs_exist_ok=True)
    check = "import penstock.cell as cell, penstock.command; print(cell.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", check], env={"PYTHONPATH": str(package)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    text, _, file = done.stdout.rstrip("\n").rpartition("\n")
    assert file.endswith(".py") == (made is None)
    return text + "\n"


def test_a_failed_build_leaves_no_half_file(tmp_path: Path) -> None:
    """What is kept under its key is whole: it is moved there when it is finished."""
    source = tmp_path / "broken.c"
    source.write_text("int main(void) { return 0 ;")
    with pytest.raises(native_build.CannotCompileError, match="the C compiler failed"):
        native_build.compile_units([Unit(source, (), "key")], tmp_path / "units")
    assert not (tmp_path / "units" / "key.o").exists()


REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_A_WHEEL = "from setuptools import build_meta; print(build_meta.build_wheel('made'))"


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_plain_and_says_why(tmp_path: Path) -> None:
    """And with PENSTOCK_COMPILE=require there is no wheel."""
    for name in ("pyproject.toml", "setup.py", "native_build.py", "compile_list.txt", "README.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    shutil.copy(REPOSITORY / "LICENSE", tmp_path)
    shutil.copytree(REPOSITORY / "src" / "penstock", tmp_path / "src" / "penstock")
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    environment = {name: text for name, text in os.environ.items() if "PENSTOCK" not in name}
    environment["CC"] = "false"

    def build_it(**more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", BUILD_A_WHEEL],
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    done = build_it()
    assert done.returncode == 0, done.stderr
    assert "penstock: NOT COMPILED, installing plain Python: no C compiler" in done.stderr
    with zipfile.ZipFile(next((tmp_path / "made").glob("*.whl"))) as wheel:
        assert not [name for name in wheel.namelist() if name.endswith(".so")]
        assert wheel.read("penstock/not-compiled.txt").startswith(b"no C compiler")
        # What `penstock run` plays of an installed package.
        assert "penstock/examples/orders/stream.py" in wheel.namelist()
    assert build_it(PENSTOCK_COMPILE="require").returncode != 0
