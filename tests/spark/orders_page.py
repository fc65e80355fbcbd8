"""Runs the commands of docs/orders.md as a reader would, section by section, in one shell."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from tests.conformance.live import free_port
from tests.spark.cluster import SHORT_LIFE

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PAGE: Final = REPOSITORY / "docs" / "orders.md"
FOLDER: Final = "/tmp/orders"
SHELL: Final = """set -m
trap 'for job in $(jobs -p); do kill -9 -- -$job; done' EXIT
"""
"""Jobs have process groups of their own, as in a terminal, and end with the shell."""

Between = Mapping[str, str]
BETWEEN: Final[Between] = {}


def sections() -> dict[str, str]:
    """The commands of each section, by its title."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {
        title: "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {title: commands for title, commands in found.items() if commands}


def follow(titles: list[str], folder: Path, seconds: float, between: Between = BETWEEN) -> str:
    """What the commands of these sections print, with `folder` for /tmp/orders and another port.

    between: some of one's own, before the first line that begins so.
    Raises: subprocess.TimeoutExpired with nothing left running.
    """
    port = free_port()
    commands = sections()
    script = SHELL + "".join(f"echo '## {title}'\n{commands[title]}" for title in titles)
    for line, more in between.items():
        assert f"\n{line}" in script, f"no line of the page begins with {line}"
        script = script.replace(f"\n{line}", f"\n{more}{line}", 1)
    script = script.replace(FOLDER, str(folder))
    script = re.sub(r"penstock (serve|why)", rf"penstock \1 --port {port}", script)
    clone = folder / "clone"
    copy_example(clone / "examples" / "orders", folder)
    environment = {
        **os.environ,
        **SHORT_LIFE,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ORDERS_URL": f"amqp://guest:guest@127.0.0.1:{port}",
    }
    output = folder / "output.txt"
    with (
        output.open("wb") as out,
        subprocess.Popen(
            ["bash", "-c", script],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as shell,
    ):
        try:
            shell.wait(seconds)
        finally:
            if shell.poll() is None:
                for one in psutil.Process(shell.pid).children(recursive=True):
                    one.kill()
                shell.kill()
    return output.read_text(encoding="utf-8", errors="replace")


def copy_example(place: Path, folder: Path) -> None:
    """The example's files with `folder` for /tmp/orders; the address of a checkpoint is in one."""
    place.mkdir(parents=True)
    for file in (REPOSITORY / "examples" / "orders").iterdir():
        if file.is_file():
            text = file.read_text(encoding="utf-8").replace(FOLDER, str(folder))
            (place / file.name).write_text(text, encoding="utf-8")
