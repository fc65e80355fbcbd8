"""`penstock serve` as a process: what it prints, how it stops, how it fails."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def serve(directory: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "error",
            "-X",
            "dev",
            "-m",
            "penstock.cli.main",
            "serve",
            "--control",
            str(directory / "control.sock"),
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_signal_is_a_clean_stop(tmp_path: Path, name: signal.Signals) -> None:
    with serve(tmp_path, "--memory", "--port", "0") as process:
        assert process.stdout is not None and process.stderr is not None
        head = process.stdout.readline()
        assert head.startswith("penstock ") and f"pid {process.pid}" in head
        assert "memory only" in process.stdout.readline()
        ready = process.stdout.readline()
        assert "amqp://127.0.0.1:" in ready and "ready in" in ready
        assert "control" in process.stdout.readline()
        process.send_signal(name)
        assert process.stdout.read() == "stopped; nothing was kept\n"
        # The debug mode also tells of steps that took long, which on a busy machine some do.
        said = process.stderr.read().splitlines()
        assert [line for line in said if not line.startswith("Executing <")] == []
    assert process.returncode == 0
    assert not (tmp_path / "control.sock").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--port", "70000"), "0..65535"),
        (("--config", "/nowhere/penstock.toml"), "/nowhere/penstock.toml"),
        (("--port", "0", "--events", "/dev/null/x"), "--events"),
        (("--memory", "--data", "x"), "exclude each other"),
        (("--profile", "x"), "penstock"),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(one),
)
def test_an_operators_fault_is_said_without_a_traceback(
    tmp_path: Path, options: tuple[str, ...], text: str
) -> None:
    with serve(tmp_path, *options) as process:
        out, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert text in error and "Traceback" not in error and out == ""


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serve(tmp_path, "--port", str(port)) as process:
            _, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert f"port {port} on 127.0.0.1 is used by pid {os.getpid()}" in error
