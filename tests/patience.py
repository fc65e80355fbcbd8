"""How long tests wait, and how they see that the machine stood still while they measured.

A test waits for what must come, for up to PATIENCE_S, and goes on as soon as it is there. A busy
machine then costs time and never the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Final, TypeVar

import pytest

PATIENCE_S: Final = 60.0
"""Only what is broken takes longer, however busy the machine is."""
LOOK_S: Final = 0.01
TRIES: Final = 3

T = TypeVar("T")


def until(
    is_so: Callable[[], object], wanted: str, step: Callable[[], object] | None = None
) -> None:
    """Return once `is_so()`; between two looks do `step`, or sleep a little.

    Raises: AssertionError that says what was `wanted`, after PATIENCE_S.
    """
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, f"not within {PATIENCE_S:.0f} s: {wanted}"
        if step is None:
            time.sleep(LOOK_S)
        else:
            step()


class Lateness(Thread):
    """Sleeps again and again while the block runs; worst_s: by how much it woke too late at worst.

    It is late when the whole machine stood still, or gave this process no processor. pid: another
    process that matters, 0 for none: how long it was stopped, or waited for a processor, counts.
    waiting_share: the part of the time in which that process waited for a processor, 0.0 to 1.0;
    a machine on which many want to work is late for nobody, and slow for each.
    """

    def __init__(self, pid: int = 0) -> None:
        super().__init__(name="lateness", daemon=True)
        self.worst_s = 0.0
        self.waiting_share = 0.0
        self._pid = pid
        self._is_over = Event()

    def __enter__(self) -> Lateness:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        first_s = began_s = time.monotonic()
        stopped_s = 0.0
        first_waited_s = waited_s = waited_for_processor_s(self._pid)
        while not self._is_over.wait(LOOK_S):
            now_s = time.monotonic()
            stopped_s = stopped_s + now_s - began_s if is_stopped(self._pid) else 0.0
            before_s, waited_s = waited_s, waited_for_processor_s(self._pid)
            self.worst_s = max(
                self.worst_s, now_s - began_s - LOOK_S, stopped_s, waited_s - before_s
            )
            # Of a process that has ended nothing is known any more.
            if waited_s >= before_s:
                self.waiting_share = (waited_s - first_waited_s) / (now_s - first_s)
            began_s = now_s


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped the process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] in ("T", "t")
    except OSError:
        return False


def waited_for_processor_s(pid: int) -> float:
    """How long the first thread of the process has ever waited for its turn; 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def undisturbed(measure: Callable[[], T], late_s_max: float, pid: int = 0) -> T:
    """What `measure` gives, or raises, while the machine lets it and the process `pid` work: it is
    done again, up to TRIES times in all, when one of them stood still for more than `late_s_max`
    meanwhile. Whether the result is the wanted one plays no part. With no quiet moment at all the
    test is skipped."""
    worst_s = 0.0
    for _ in range(TRIES):
        failure: BaseException | None = None
        with Lateness(pid) as lateness:
            try:
                found = measure()
            except (Exception, pytest.fail.Exception) as error:
                failure = error
        worst_s = lateness.worst_s
        if worst_s <= late_s_max:
            if failure is not None:
                raise failure
            return found
    pytest.skip(f"THE MACHINE IS TOO BUSY TO MEASURE: it stood still for {worst_s:.1f} s")
