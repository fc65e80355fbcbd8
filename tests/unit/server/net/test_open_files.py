"""How many files the process may have open, and how many of them are not for clients."""

import resource
import subprocess
import sys

import pytest

from penstock.base.limits import HANDLES_KEPT
from penstock.server.net.listener import end_for_clients, kept_of

RAISED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 700))
from penstock.server.net.listener import end_for_clients, raise_limit
print(raise_limit(100), raise_limit(10_000), resource.getrlimit(resource.RLIMIT_NOFILE))
print(end_for_clients())
"""


@pytest.mark.parametrize(
    ("limit", "kept"), [(64, 16), (1024, 256), (4096, HANDLES_KEPT.default), (0, 0)]
)
def test_of_few_files_a_quarter_is_kept(limit: int, kept: int) -> None:
    assert kept_of(limit) == kept


def test_what_is_kept_comes_last() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert end_for_clients() == soft - kept_of(soft)


def test_the_limit_is_raised_as_far_as_the_system_lets_it() -> None:
    """In a process of its own, because it is the process's."""
    done = subprocess.run(
        [sys.executable, "-c", RAISED], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["356 700 (700, 700)", "525"]
