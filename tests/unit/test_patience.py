"""The tests' own helpers: a measurement is repeated if the machine stood still, and only then."""

import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.conformance.live import free_port, lock_of
from tests.patience import Lateness, undisturbed, until


def test_what_was_measured_while_the_process_was_stopped_is_measured_again() -> None:
    seen: list[str] = []
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def measure() -> str:
        seen.append("quiet" if seen else "stopped")
        if seen == ["stopped"]:
            child.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            child.send_signal(signal.SIGCONT)
        return seen[-1]

    try:
        assert undisturbed(measure, 0.3, child.pid) == "quiet"
    finally:
        child.kill()
        child.communicate()


def test_an_error_that_did_not_come_while_the_machine_stood_still_is_waited_for_again() -> None:
    """`pytest.raises` fails with what is no Exception."""
    tries: list[int] = []
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def measure() -> None:
        tries.append(1)
        if len(tries) == 1:
            child.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            child.send_signal(signal.SIGCONT)
        with pytest.raises(KeyError):
            if len(tries) > 1:
                raise KeyError

    try:
        undisturbed(measure, 0.3, child.pid)
        assert len(tries) > 1
    finally:
        child.kill()
        child.communicate()


def test_a_process_that_waits_for_a_processor_is_seen() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(spin) as one, subprocess.Popen(spin) as other:
        try:
            for child in (one, other):
                os.sched_setaffinity(child.pid, {min(os.sched_getaffinity(0))})
            with Lateness(one.pid) as lateness:
                until(lambda: lateness.waiting_share > 0.2, "one waits for the other")
        finally:
            one.kill()
            other.kill()


def test_what_is_wrong_without_any_disturbance_is_not_tried_again() -> None:
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        undisturbed(fail, 60.0)
    assert len(tries) == 1


def test_waiting_ends_with_what_is_waited_for_and_says_what_never_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    until(lambda: len(looks) == 3, "three looks", lambda: looks.append(1))
    assert len(looks) == 3
    monkeypatch.setattr("tests.patience.PATIENCE_S", 0.02)
    with pytest.raises(AssertionError, match="a miracle"):
        until(lambda: False, "a miracle")


def test_a_port_is_nobody_elses_while_it_is_ours() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) == 20
    for port in ports:
        other = os.open(lock_of(port), os.O_RDWR)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(other)
