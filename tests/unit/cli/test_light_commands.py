"""Commands that ask a running broker do not import one: they answer while somebody types.

Modules are counted, and not time: what is imported decides how long `penstock status` takes, and
the count is the same on every machine.
"""

import subprocess
import sys

import pytest

from penstock.cli.main import COMMANDS

SHARED = {
    *("penstock", "penstock.base", "penstock.base.errors", "penstock.base.printable"),
    *("penstock.cli", "penstock.cli.asking", "penstock.cli.main"),
    *("penstock.server", "penstock.server.control", "penstock.server.control.control_client"),
}
OF_STATUS = {
    "penstock.cli.numbers",
    *("penstock.base.quantities", "penstock.cli.status", "penstock.cli.tables", "penstock.explain"),
    *("penstock.explain.kinds", "penstock.telemetry", "penstock.telemetry.snapshots"),
    "penstock.telemetry.words",
}
MODULES_MAX = 220
"""Of everything, Python's own included; 170 with Python 3.11. It was 468."""
LIGHT = (
    *("connections", "channels", "consumers", "exchanges", "queues", "bindings", "flow"),
    *("limits", "users", "vhosts", "permissions", "policies", "definitions", "record", "version"),
)


def imported_by(*commands: str) -> set[str]:
    """All modules that are there when `commands` have been found, of a new interpreter."""
    program = (
        "import sys\n"
        "from penstock.cli.main import cli\n"
        f"for name in {commands!r}: assert cli.get_command(None, name) is not None\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("command", ["status", "why"])
def test_status_imports_a_handful(command: str) -> None:
    found = imported_by(command)
    assert {one for one in found if one.startswith("penstock")} == SHARED | OF_STATUS
    assert len(found) < MODULES_MAX
    assert not found & {"asyncio", "rich", "ssl", "psutil", "msgspec"}


def test_other_commands_import_no_broker() -> None:
    found = imported_by(*LIGHT)
    assert not found & {"penstock.broker.broker", "asyncio", "rich", "http.client", "ssl"}


def test_no_command_loads_what_only_its_work_needs() -> None:
    found = imported_by(*COMMANDS)
    heavy = {"penstock.broker.broker", "numpy", "pyarrow", "pandas", "pyspark", "pika"}
    assert not found & heavy


def test_the_broker_for_tests_imports_no_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, penstock.testing.child; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = set(done.stdout.split())
    assert "penstock.broker.broker" in found
    assert not {"click", "rich", "numpy", "pytest"} & found
    rooms = {one.split(".")[1] for one in found if one.startswith("penstock.")}
    assert not rooms & {"cli", "client", "demo", "lab", "perf", "simulation", "spark", "sweep"}
