"""Imports point to lower floors only, rooms on one floor do not know each other, no cycles."""

import ast
import re

from tests.architecture.house import (
    BELOW_PARTS,
    FLOORS,
    HERE,
    LOWEST_OF_TOP,
    PACKAGE,
    PARTS,
    Module,
    imports,
    module_names,
    modules,
    part_of,
    room_of,
    short_of,
    targets,
)

# Rooms that see less than everything below them.
SEES_ONLY = {
    "connector": {"", "base", "client", "connector", "protocol"},
    "spark": {"", "base", "client", "connector", "spark", "sweep", "telemetry"},
}

# Files of the connector that know PySpark; everything else there runs, and is tested, without it.
KNOW_PYSPARK = {
    "engines",
    "filtering",
    "lease_source",
    "queue_source",
    "reader",
    "sink",
    "source",
    "stream_source",
}

# Packages that may be absent, and that only rooms of the top floors import inside functions.
OPTIONAL = {
    "aio_pika",
    "celery",
    "cryptography",
    "deltalake",
    "jinja2",
    "jwt",
    "matplotlib",
    "prometheus_client",
    "starlette",
    "uvicorn",
    "numpy",
    "pandas",
    "pika",
    "pyarrow",
    "pyspark",
}


def may_import(room: str, other: str) -> bool:
    if other in {"", room}:
        return True
    if room in SEES_ONLY and other not in SEES_ONLY[room]:
        return False
    return room != "" and FLOORS[other] < FLOORS[room]


def test_every_room_stands_on_a_floor() -> None:
    rooms = {module.room for module in modules()} - {""}
    assert rooms <= FLOORS.keys(), f"rooms without a floor: {sorted(rooms - FLOORS.keys())}"


def test_imports_point_down() -> None:
    wrong = [
        f"{module.short}:{found.line} imports {target}"
        for module in modules()
        for found in imports(module)
        for target in targets(found)
        if not may_import(module.room, room_of(target))
    ]
    assert not wrong, "\n".join(wrong)


def test_parts_of_a_room_see_only_those_before_them() -> None:
    wrong = [
        f"{module.short}:{found.line} imports {target}"
        for module in modules()
        if module.room in PARTS and module.path.name != "__init__.py"
        for found in imports(module)
        for target in targets(found)
        if room_of(target) == module.room
        and part_of(short_of(target), module.room) > part_of(module.short, module.room)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_part_has_its_place_in_the_order() -> None:
    for room, parts in PARTS.items():
        folder = PACKAGE / ("spark/connector" if room == "connector" else room)
        there = {path.parent.name for path in folder.glob("*/__init__.py")} - {"connector"}
        assert there == set(parts) - {HERE}, room
    assert all((PACKAGE / f"{short}.py").is_file() for short in BELOW_PARTS)


def test_imported_modules_exist() -> None:
    """Also those in TYPE_CHECKING blocks, which nothing else would execute."""
    wrong = [
        f"{module.short}:{found.line} imports {found.module}"
        for module in modules()
        for found in imports(module)
        for target in targets(found)
        if target not in module_names()
    ]
    assert not wrong, "\n".join(wrong)


def test_there_are_no_cycles() -> None:
    """Imports for type checking alone are left out: they do not run."""
    waiting = {module.name: _needs(module) for module in modules()}
    while waiting:
        ready = {name for name, needs in waiting.items() if not needs & waiting.keys()}
        assert ready, f"these modules need each other: {sorted(_knot(waiting))}"
        for name in ready:
            del waiting[name]


def _needs(module: Module) -> set[str]:
    return {
        target for found in imports(module) if not found.is_typing_only for target in targets(found)
    } - {module.name}


def _knot(waiting: dict[str, set[str]]) -> set[str]:
    """What is left of a graph when modules nobody in it needs are taken away as well."""
    left = set(waiting)
    while True:
        needed = set().union(*(waiting[name] & left for name in left))
        if left <= needed:
            return left
        left &= needed


def test_imports_inside_functions_are_for_optional_packages_on_the_top_floors() -> None:
    wrong = [
        f"{module.short}:{found.line} imports {found.module} inside {found.function}"
        for module in modules()
        for found in imports(module)
        if found.function is not None
        and not (
            FLOORS.get(module.room, 0) >= LOWEST_OF_TOP
            and (found.module.split(".")[0] in OPTIONAL or targets(found))
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_a_package_file_only_re_exports() -> None:
    wrong = [
        f"{module.short}:{statement.lineno}"
        for module in modules()
        if module.path.name == "__init__.py"
        for statement in module.tree.body[1:]
        if not _re_exports(statement)
    ]
    assert not wrong, "\n".join(wrong)


def _re_exports(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return isinstance(statement, ast.Assign | ast.AnnAssign) and bool(
        names & {"__all__", "__version__"}
    )


def test_the_connector_knows_pyspark_in_its_shell_only() -> None:
    found = {
        module.path.stem
        for module in modules()
        if module.room == "connector"
        and any(taken.module.split(".")[0] == "pyspark" for taken in imports(module))
    }
    assert found == KNOW_PYSPARK


def test_every_room_says_where_to_begin() -> None:
    """In it, enters, leaves, begin with: the last names modules of the room."""
    wrong = []
    for module in modules():
        if module.path.name != "__init__.py" or module.room in {"", "demo", "perf"}:
            continue
        docstring = ast.get_docstring(module.tree) or ""
        parts = ("In it: ", "Enters: ", "Leaves: ", "Begin with: ")
        begin = docstring.rpartition(parts[-1])[2].strip(".\n ")
        names = re.split(r",? (?:then|and|or) ", begin)
        if any(part not in docstring for part in parts):
            wrong.append(f"{module.short}: does not say all of {parts}")
        elif not all((module.path.parent / f"{name}.py").is_file() for name in names):
            wrong.append(f"{module.short}: begin with {begin}? It is not there")
    assert not wrong, "\n".join(wrong)
