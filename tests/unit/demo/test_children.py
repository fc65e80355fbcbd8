"""Children: their numbers are read, and every one is ended, also one that does not listen."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from penstock.base.errors import OperatorError
from penstock.demo import children as nursery
from penstock.demo.children import HOST, Child, Children, choose_port
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

READS_INPUT = 'import sys; print(\'{"ready": 1, "n": 5}\', flush=True); sys.stdin.read()'
FAILS = "import sys; print('no good', file=sys.stderr); sys.exit(3)"


async def started(children: Children, program: str) -> Child:
    child = await children.start("child", ("-c", program))
    await children.until(child, child.is_ready.is_set, PATIENCE_S, "ready")
    return child


def test_a_child_reports_and_ends_with_its_input(tmp_path: Path) -> None:
    async def scene() -> tuple[dict[str, int], int | None]:
        child = await started(Children(tmp_path), READS_INPUT)
        child.close_input()
        return child.status, await child.wait(PATIENCE_S)

    assert asyncio.run(scene()) == ({"ready": 1, "n": 5}, 0)


def test_all_children_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "STOP_SECONDS_MAX", PATIENCE_S)

    async def scene() -> list[int | None]:
        children = Children(tmp_path)
        both = [await started(children, READS_INPUT) for _ in range(2)]
        await children.stop_all()
        await children.stop_all()
        return [child.exit_status for child in both]

    assert asyncio.run(scene()) == [-signal.SIGTERM, -signal.SIGTERM]


def test_a_child_that_fails_is_told_with_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"status 3 before it was ready:\nno good"):
        asyncio.run(started(Children(tmp_path), FAILS))


def test_zero_gives_a_free_port() -> None:
    assert 0 < choose_port(0) < 65_536


def test_a_taken_port_names_its_owner_and_the_fix() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(OperatorError) as caught:
            choose_port(taken.getsockname()[1])
    assert f"pid {os.getpid()}" in str(caught.value)
    assert "penstock run --port 0" in str(caught.value)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(OperatorError, match="does not exist"):
        choose_port(port)


def test_what_a_child_says_in_words_is_kept(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        program = """print("a word"); print('{"n": 1}')"""
        child = await Children(tmp_path).start("child", ("-c", program))
        await child.wait(PATIENCE_S)
        return list(child.said)

    assert asyncio.run(scene()) == ["a word"]


def test_a_child_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    starts = (
        "import subprocess, sys; one = subprocess.Popen([sys.executable, '-c', 'input()'], "
        "stdin=subprocess.PIPE); print(one.pid); print('{}', flush=True); sys.stdin.read()"
    )

    async def scene() -> tuple[int | None, int]:
        child = await started(Children(tmp_path), starts)
        await child.kill_all()
        return child.exit_status, int(child.said[0])

    status, below = asyncio.run(scene())
    assert status == -signal.SIGKILL
    until(lambda: not is_alive(below), "the child's own child is gone")


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


LONG_LINE = "print('x' * 300_000, flush=True); "


def test_a_line_that_is_too_long_is_no_end_of_what_a_child_says(tmp_path: Path) -> None:
    """Nothing behind it was read, and the end of the run left the other children."""

    async def scene() -> list[int | None]:
        children = Children(tmp_path)
        both = [await started(children, one) for one in (READS_INPUT, LONG_LINE + READS_INPUT)]
        await children.stop_all()
        return [child.exit_status for child in both]

    assert asyncio.run(scene()) == [-signal.SIGTERM, -signal.SIGTERM]
