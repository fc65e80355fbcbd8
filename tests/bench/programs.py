"""The programs of bench/, run as they are called, and what all of them refuse."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def output_of(program: str, *words: str) -> str:
    """What it prints; it has to end well."""
    ran = subprocess.run(
        [sys.executable, str(BENCH / program), *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def refuses(parse: Callable[[list[str]], object], *calls: str) -> None:
    """Each call makes no sense, and ends with 2."""
    for call in calls:
        with pytest.raises(SystemExit) as ended:
            parse(call.split())
        assert ended.value.code == 2, call
