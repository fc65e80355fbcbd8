"""What holds for the whole suite: which build is under test, and how Hypothesis searches.

PENSTOCK_TEST_BUILD=interpreted or =compiled makes the run fail at once unless every module of the
compile list is imported that way. HYPOTHESIS_PROFILE=long searches longer, from a fresh seed.
"""

import asyncio
import importlib
import inspect
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from scripts.show_build import is_compiled, listed_modules
from tests.layers import COMPILED, COMPILED_LONG, WHAT, is_in, turn_of

SOURCE_TREE = Path(__file__).resolve().parent.parent / "src"

# Derandomized: the same commit always runs the same examples, so a failure is never chance.
hypothesis.settings.register_profile(
    "default", derandomize=True, deadline=None, database=None, print_blob=True
)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2_000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# asyncio reads this when a loop is made; broker processes started by tests inherit it.
os.environ.setdefault("PYTHONASYNCIODEBUG", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--layer",
        choices=(*WHAT, COMPILED, COMPILED_LONG),
        help="only the tests of one layer (tests/layers.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Who names a file wants that file. Workers of pytest-xdist are always told names.
    is_worker = hasattr(config, "workerinput")
    if config.args_source is pytest.Config.ArgsSource.ARGS and not is_worker:
        config.option.layer = None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    layer = config.getoption("--layer")
    if layer is None or not collection_path.match("test_*.py"):
        return None
    return None if is_in(layer, collection_path) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers of pytest-xdist are given whole files, in this order (--no-loadscope-reorder)."""
    if hasattr(config, "workerinput"):
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: turn_of(item.path, tests[item.path]))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_report_header() -> str:
    modules = listed_modules()
    compiled = sum(is_compiled(module) for module in modules)
    return f"penstock: {compiled} of {len(modules)} modules of the compile list are compiled"


def pytest_sessionstart() -> None:
    build = os.environ.get("PENSTOCK_TEST_BUILD")
    if build is None:
        return
    assert build in {"interpreted", "compiled"}, f"PENSTOCK_TEST_BUILD={build}"
    wrong = [name for name in listed_modules() if is_compiled(name) != (build == "compiled")]
    if wrong:
        pytest.exit(f"this should be the {build} build, but is not: {', '.join(wrong)}", 3)
    package = importlib.import_module("penstock").__file__
    assert package is not None, "penstock has an __init__.py"
    if build == "compiled" and Path(package).is_relative_to(SOURCE_TREE):
        pytest.exit(f"the compiled build must not be imported from the source tree: {package}", 3)


def _shared_empties() -> list[tuple[str, object]]:
    """Containers of penstock that many objects share while they have nothing to put into one of
    their own: module constants whose names begin with NO_ or NONE_."""
    found: list[tuple[str, object]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith("penstock."):
            found += [
                (f"{name}.{word}", value)
                for word, value in vars(module).items()
                if word.startswith(("NO_", "NONE_")) and isinstance(value, (dict, list, set))
            ]
    return found


@pytest.fixture(autouse=True, scope="module")
def _shared_empties_stay_empty() -> Iterator[None]:
    """Who writes into one of these writes into that of every connection."""
    yield
    for name, shared in _shared_empties():
        assert not shared, f"{name} is shared, and has {shared!r}"
