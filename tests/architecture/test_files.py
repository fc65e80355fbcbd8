"""Every file says its purpose in its first line and stays small enough to be read at once."""

import ast

from tests.architecture.house import PACKAGE, REPOSITORY, Module, functions, modules

FILE_LINES_MAX = 400
"""A file has one purpose, and is normally below this."""
CLASS_FILE_LINES_MAX = 900
"""A class stays whole: a file may be this long when one class takes most of it."""
CLASS_SHARE = 0.5
FUNCTION_LINES_MAX = 70

# Files that may be longer, with the reason. Shorten this list, never lengthen it lightly.
LONG_FILES: dict[str, str] = {
    "base/limits": "one table, every bound a row of it; rows are looked up",
    "protocol/methods/table": "one table, every method of AMQP a row of it; rows are looked up",
}
# The same for functions, as `room/file:name`.
LONG_FUNCTIONS: dict[str, str] = {
    "storage/layout/encoder:add_run": "one loop that every persistent message goes through: a call "
    "costs as much as the rest of a turn of it",
}

ALL_FILES = sorted(
    path
    for folder in ("src", "tests", "scripts", "fuzz", "bench", "examples")
    for path in (REPOSITORY / folder).rglob("*.py")
    # An empty `__init__` among the tests only marks a folder as a package.
    if path.stat().st_size > 0 or folder == "src"
)


def test_files_begin_with_their_purpose() -> None:
    for path in ALL_FILES:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        name = path.relative_to(REPOSITORY).as_posix()
        assert docstring, f"{name}: no docstring"
        assert docstring.splitlines()[0].strip(), f"{name}: the first line says nothing"


def allowed_lines(module: Module) -> int:
    """How long a file may be: longer where one class takes most of it, and then it is one file."""
    length = len(module.text.splitlines())
    longest = max(
        (
            (node.end_lineno or 0) - node.lineno + 1
            for node in module.tree.body
            if isinstance(node, ast.ClassDef)
        ),
        default=0,
    )
    return CLASS_FILE_LINES_MAX if longest >= CLASS_SHARE * length else FILE_LINES_MAX


def test_files_are_short() -> None:
    long = {
        module.short: len(module.text.splitlines())
        for module in modules()
        if len(module.text.splitlines()) > allowed_lines(module) and module.short not in LONG_FILES
    }
    assert not long, long


def test_functions_are_short() -> None:
    long = {}
    for module in modules():
        for function in functions(module):
            assert function.end_lineno is not None, "because the parser always sets it"
            lines = function.end_lineno - function.lineno + 1
            name = f"{module.short}:{function.name}"
            if lines > FUNCTION_LINES_MAX and name not in LONG_FUNCTIONS:
                long[name] = lines
    assert not long, long


def test_exceptions_are_still_needed() -> None:
    for name in LONG_FILES:
        lines = (PACKAGE / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert len(lines) > FILE_LINES_MAX, f"{name} is short enough now"
    lengths = {
        f"{module.short}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for module in modules()
        for function in functions(module)
    }
    for name in LONG_FUNCTIONS:
        assert lengths.get(name, 0) > FUNCTION_LINES_MAX, f"{name} is short enough now"
