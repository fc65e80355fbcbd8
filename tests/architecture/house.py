"""The source tree as the architecture tests see it: modules, rooms, floors and imports."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = REPOSITORY / "src" / "penstock"

FLOORS: Final[dict[str, int]] = {
    "base": 0,
    "telemetry": 1,
    "explain": 2,
    "flow": 2,
    "protocol": 2,
    "replication": 2,
    "routing": 3,
    "storage": 3,
    "client": 3,
    "forwarding": 3,
    "streams": 4,
    "queues": 4,
    "broker": 5,
    "server": 6,
    "connector": 7,
    "management": 7,
    "perf": 7,
    "simulation": 7,
    "testing": 7,
    "lab": 8,
    "sweep": 9,
    "whatif": 9,
    "spark": 10,
    "demo": 11,
    "cli": 12,
    # Files directly in the package that start things: `__main__`, `pytest_plugin`.
    "top": 13,
}

LOWEST_OF_TOP: Final = FLOORS["connector"]
"""Rooms from this floor on are programs: they may need packages that are not always installed."""

# Rooms inside a room, with floors and neighbours of their own.
INNER_ROOMS: Final[dict[tuple[str, str], str]] = {("spark", "connector"): "connector"}

HERE: Final = "."
"""In the order of a room's parts: the files that lie directly in the room."""

# The parts of a room in their order: each sees only those before it.
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "broker": (
        "actors",
        "queue",
        "store",
        "paging",
        "vhost",
        "stream",
        "dead_letter",
        "channel",
        "lease",
        "transaction",
        "connection",
        "session",
        "policy",
        "alarm",
        "settings",
        "node",
        HERE,
        "admin",
    ),
    "connector": ("common", "sink", "queue", "stream", "lease", HERE),
    "server": (
        "machine",
        "net",
        "disk",
        "recorder",
        "control",
        "boot",
        "cluster",
        "workers",
        "shards",
    ),
    "simulation": ("machine", "cluster", "laws", "world", "scenario", HERE),
    "spark": ("session", "schema", "tables", "input", "blame", "report", "job", HERE),
    "storage": ("layout", "log", "recovery", "check"),
}

# Files that lie directly in a room although its parts need them: their paths are public.
BELOW_PARTS: Final[dict[str, str]] = {"spark/java": "README and docs tell users to call it"}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module. `names`: what is taken from it, () for a plain import."""

    module: str
    names: tuple[str, ...]
    line: int
    is_typing_only: bool
    function: str | None


@dataclass(frozen=True, slots=True)
class Module:
    """One source file. `name`: dotted, `penstock.flow.gate`; `room`: a key of FLOORS, or ""."""

    name: str
    room: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def short(self) -> str:
        """The name used in limits, lists and messages: `flow/gate`."""
        return self.path.relative_to(PACKAGE).with_suffix("").as_posix()


@cache
def modules() -> tuple[Module, ...]:
    """Every file of the package, sorted by path."""
    return tuple(_module(path) for path in sorted(PACKAGE.rglob("*.py")))


@cache
def module_names() -> frozenset[str]:
    return frozenset(module.name for module in modules())


def compiled_files() -> tuple[Path, ...]:
    """The files on the compile list, whether or not they exist."""
    lines = (REPOSITORY / "compile_list.txt").read_text(encoding="utf-8").splitlines()
    return tuple(PACKAGE / line.strip() for line in lines if line.strip() and line[0] != "#")


def _module(path: Path) -> Module:
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    room = parts[0] if len(parts) > 1 else "top"
    if len(parts) > 2:
        room = INNER_ROOMS.get((parts[0], parts[1]), room)
    if parts == ["__init__"]:
        # The package itself carries the version and imports nothing, so anyone may use it.
        room = ""
    if parts[-1] == "__init__":
        parts.pop()
    text = path.read_text(encoding="utf-8")
    name = ".".join(["penstock", *parts])
    return Module(name, room, path, text, ast.parse(text, filename=str(path)))


@cache
def imports(module: Module) -> list[Import]:
    """All imports in a file, in its order, wherever they stand."""
    found: list[Import] = []
    _collect(module.tree, found, is_typing_only=False, function=None)
    return found


def _collect(
    node: ast.AST, found: list[Import], *, is_typing_only: bool, function: str | None
) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                found.append(Import(alias.name, (), child.lineno, is_typing_only, function))
        elif isinstance(child, ast.ImportFrom):
            # Relative imports are forbidden by the linter, so a module is always named.
            names = tuple(alias.name for alias in child.names)
            source = child.module or ""
            found.append(Import(source, names, child.lineno, is_typing_only, function))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            _collect(child, found, is_typing_only=is_typing_only, function=child.name)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for part in child.body:
                _collect(_block(part), found, is_typing_only=True, function=function)
            for part in child.orelse:
                _collect(_block(part), found, is_typing_only=is_typing_only, function=function)
        else:
            _collect(child, found, is_typing_only=is_typing_only, function=function)


def _block(statement: ast.stmt) -> ast.Module:
    return ast.Module(body=[statement], type_ignores=[])


def targets(found: Import) -> list[str]:
    """The modules of this package that an import reaches.

    `from penstock.base import wire` reaches `penstock.base.wire` when that is a module, and
    `penstock.base` itself when something else is taken from it.
    """
    if found.module != "penstock" and not found.module.startswith("penstock."):
        return []
    below = [f"{found.module}.{name}" for name in found.names]
    reached = [name for name in below if name in module_names()]
    if len(reached) < len(below) or not below:
        reached.append(found.module)
    return reached


def room_of(name: str) -> str:
    """The room of a module by its dotted name; "" for the package itself."""
    parts = name.split(".")
    if len(parts) == 1:
        return ""
    if len(parts) > 2 and (parts[1], parts[2]) in INNER_ROOMS:
        return INNER_ROOMS[parts[1], parts[2]]
    return parts[1] if (PACKAGE / parts[1]).is_dir() else "top"


def functions(module: Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def part_of(short: str, room: str) -> int:
    """The rank of a module, by its short name, among the parts of its room.

    Parts count from 1 in their order. 0: a file that parts may need.
    Raises: ValueError for a part that has no order.
    """
    if short in BELOW_PARTS or short.endswith("/__init__"):
        return 0
    folders = short.split("/")[2 if room in INNER_ROOMS.values() else 1 : -1]
    return PARTS[room].index(folders[0] if folders else HERE) + 1


def short_of(name: str) -> str:
    """The short name of a module by its dotted name; that of a package is its `__init__`."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    file = path / "__init__" if path.is_dir() else path
    return file.relative_to(PACKAGE).as_posix()
