"""Below the server nothing touches the outside: no sockets, files, threads, clocks or chance."""

import ast

from tests.architecture.house import Module, imports, modules

PURE_ROOMS = {
    "base",
    "telemetry",
    "explain",
    "flow",
    "protocol",
    "replication",
    "routing",
    "storage",
    "client",
    "queues",
    "broker",
    "simulation",
    "lab",
    "sweep",
    "whatif",
}

# Files of pure rooms that run real processes, write files or draw: the live halves of commands.
SHELLS = (
    "client/io_",
    "lab/table",
    "lab/live",
    "lab/peers_process",
    "lab/plots",
    "sweep/plots",
    "sweep/tables",
)

FORBIDDEN_MODULES = {
    "_thread",
    "asyncio",
    "concurrent",
    "contextvars",
    "ctypes",
    "fcntl",
    "logging",
    "mmap",
    "multiprocessing",
    "os",
    "queue",
    "random",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}

# (file, module): why it is harmless there.
HARMLESS: dict[tuple[str, str], str] = {
    ("base/untracked", "ctypes"): "tells this process's own garbage collector, and nothing else",
    ("simulation/__main__", "time"): "a command line: how long a sweep lasts is in real seconds",
}

# Calls that read a clock or touch a file without any import from the list above.
FORBIDDEN_CALLS = {"breakpoint", "eval", "exec", "input", "open", "print"}
CLOCK_READERS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")} | {
    ("date", "today")
}


def pure_modules() -> list[Module]:
    return [
        module
        for module in modules()
        if module.room in PURE_ROOMS and not module.short.startswith(SHELLS)
    ]


def test_pure_rooms_import_nothing_that_touches_the_outside() -> None:
    wrong = [
        f"{module.short}:{found.line} imports {found.module}"
        for module in pure_modules()
        for found in imports(module)
        if found.module.split(".")[0] in FORBIDDEN_MODULES
        and (module.short, found.module) not in HARMLESS
    ]
    assert not wrong, "\n".join(wrong)


def test_pure_rooms_handle_names_of_files_not_files() -> None:
    """`pathlib.PurePath` is a value; `pathlib.Path` opens, lists and deletes."""
    wrong = [
        f"{module.short}:{found.line}"
        for module in pure_modules()
        for found in imports(module)
        if found.module == "pathlib"
        and not (found.names and set(found.names) <= {"PurePath", "PurePosixPath"})
    ]
    assert not wrong, "\n".join(wrong)


def test_pure_rooms_read_no_clock_and_open_nothing() -> None:
    wrong = [
        f"{module.short}:{node.lineno} calls {ast.unparse(node.func)}"
        for module in pure_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and _touches_outside(node.func)
    ]
    assert not wrong, "\n".join(wrong)


def _touches_outside(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in FORBIDDEN_CALLS
    if not isinstance(function, ast.Attribute):
        return False
    owner = ast.unparse(function.value).split(".")[-1]
    return (owner, function.attr) in CLOCK_READERS


def test_what_is_called_harmless_is_still_there() -> None:
    imported = {(module.short, found.module) for module in modules() for found in imports(module)}
    assert set(HARMLESS) <= imported, "an exception that nobody needs any more"
