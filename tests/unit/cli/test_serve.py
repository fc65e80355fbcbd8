"""`penstock serve` as a process: what it prints, how it stops, how it fails."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.status import status
from penstock.cli.store import store
from penstock.server.machine.build import PLAIN, build_kind, build_words
from tests.patience import PATIENCE_S


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


def read_to_control(process: "subprocess.Popen[str]") -> None:
    """The last line of the announcement; an end without one fails."""
    read_to("control", process)


def read_to(word: str, process: "subprocess.Popen[str]") -> str:
    """The next line of the announcement with that word; an end without one fails."""
    assert process.stdout is not None
    line = process.stdout.readline()
    while f" {word} " not in line:
        assert line != "", "it ended while it was starting"
        line = process.stdout.readline()
    return line


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_signal_is_a_clean_stop(tmp_path: Path, name: signal.Signals) -> None:
    with serve(tmp_path, "--memory", "--port", "0") as process:
        assert process.stdout is not None and process.stderr is not None
        head = process.stdout.readline()
        assert head.startswith("penstock ") and f"pid {process.pid}" in head
        assert f"· {build_kind()} ·" in head
        if build_kind() == PLAIN:
            assert "plain Python, not compiled" in process.stdout.readline()
        assert "memory only" in process.stdout.readline()
        ready = process.stdout.readline()
        assert "amqp://127.0.0.1:" in ready and "ready in" in ready
        control = process.stdout.readline()
        assert control.endswith(f"penstock why --control {tmp_path / 'control.sock'}\n")
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
        (("--port", "70000"), "command line: port = 70000 is not within -1..65535"),
        (("--port", "-2"), "command line: port = -2 is not within -1..65535"),
        (("--http-port", "99999"), "management_port = 99999 is not within 1..65535"),
        (("--host", ""), "command line: host is empty; write 127.0.0.1, or 0.0.0.0"),
        (("--config", "/nowhere/penstock.toml"), "/nowhere/penstock.toml"),
        (("--port", "0", "--events", "/dev/null/x"), "--events"),
        (("--memory", "--data", "x"), "exclude each other"),
        (("--profile", "x"), "penstock"),
        (("--queue-depth", "-1"), "-1 is not in the range 0<=x<=1099511627776"),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(one),
)
def test_an_operators_fault_is_said_without_a_traceback(
    tmp_path: Path, options: tuple[str, ...], text: str
) -> None:
    here = () if "--data" in options else ("--data", str(tmp_path / "data"))
    with serve(tmp_path, *here, *options) as process:
        out, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert text in error and "Traceback" not in error and out == ""


def test_a_hangup_is_not_the_end(tmp_path: Path) -> None:
    """It reads settings and certificates again, and says what came of it."""
    with serve(tmp_path, "--memory", "--port", "0") as process:
        assert process.stdout is not None and process.stderr is not None
        read_to_control(process)
        process.send_signal(signal.SIGHUP)
        line = process.stderr.readline()
        while line.startswith("Executing <"):
            line = process.stderr.readline()
        assert "SIGHUP: nothing has changed" in line
        done = CliRunner().invoke(status, ["--control", str(tmp_path / "control.sock")])
        assert done.exit_code == 0
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "stopped; nothing was kept\n"
    assert process.returncode == 0


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serve(tmp_path, "--memory", "--port", str(port)) as process:
            _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert f"port {port} on 127.0.0.1 is used by pid {os.getpid()}" in error


def test_what_is_kept_is_said(tmp_path: Path) -> None:
    """And where, at the start and at the end; the directory is made, and let go of."""
    data = tmp_path / "data"
    for _ in range(2):
        with serve(tmp_path, "--data", str(data), "--port", "0") as process:
            assert process.stdout is not None
            kept = read_to("data", process)
            assert str(data) in kept and "keeps what is durable or persistent" in kept
            read_to_control(process)
            process.send_signal(signal.SIGTERM)
            assert f"kept in {data}" in process.stdout.read()
        assert process.returncode == 0
    assert data.stat().st_mode & 0o777 == 0o700
    assert not (data / "metadata.sqlite-wal").exists(), "folded into the file at a clean end"


def test_f24_a_directory_in_use_is_not_shared(tmp_path: Path) -> None:
    """F24."""
    data = tmp_path / "data"
    with serve(tmp_path, "--data", str(data), "--port", "0") as first:
        assert first.stdout is not None
        read_to_control(first)
        before = {str(one): one.stat().st_mtime_ns for one in data.rglob("*")}
        with serve(tmp_path, "--data", str(data), "--port", "0") as second:
            _, error = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 2 and f"{data} is used by pid {first.pid}" in error
        assert {str(one): one.stat().st_mtime_ns for one in data.rglob("*")} == before
        first.send_signal(signal.SIGTERM)
        first.stdout.read()


@pytest.mark.parametrize(
    ("mode", "sign", "words"),
    [
        ("always", "✔", "survives a loss of power"),
        ("interval", "!", "takes up to 200 ms of confirmed messages"),
        ("none", "!", "without a bound"),
    ],
)
def test_when_it_syncs_is_said(tmp_path: Path, mode: str, sign: str, words: str) -> None:
    """At the start, and by `penstock status`; a mode without any sync is a warning in the log. How
    the store was written is known to the next start."""
    data = tmp_path / "data"
    with serve(tmp_path, "--data", str(data), "--sync", mode, "--port", "0") as process:
        assert process.stdout is not None and process.stderr is not None
        said = read_to("sync", process)
        assert said.startswith(f" {sign} sync     {mode}: ") and words in said
        read_to_control(process)
        done = CliRunner().invoke(status, ["--control", str(tmp_path / "control.sock")])
        lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
        assert lines["sync"].startswith(f"{mode}: ") and words in lines["sync"]
        assert lines["profile"] == "penstock"
        assert lines["version"] == f"penstock {penstock.__version__}, {build_words()}"
        assert lines["queues"] == "0, 0 messages ready, 0 unacknowledged"
        done = CliRunner().invoke(
            store, ["stats", "--format", "json", "--control", str(tmp_path / "control.sock")]
        )
        assert json.loads(done.stdout)["vhosts"][0]["messages"] == 0
        marks = {one.name for one in data.glob("vhosts/*/*")}
        assert ("UNSYNCED" in marks) == (mode == "none") and "CLEAN" not in marks
        process.send_signal(signal.SIGTERM)
        error = process.stderr.read()
        assert ("warning messages are not synced" in error) == (mode == "none")
    assert "CLEAN" in {one.name for one in data.glob("vhosts/*/*")}


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.touch()
    with serve(tmp_path, "--data", str(file), "--port", "0") as process:
        out, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (2, "")
    assert error == (
        f"✘ cannot use {file} for data: Not a directory; choose another directory with --data, or "
        "none with --memory\n"
    )


def test_a_control_socket_in_use_is_not_taken_away(tmp_path: Path) -> None:
    """The first broker could not be asked any more, and after the second's end nobody could."""
    with serve(tmp_path, "--memory", "--port", "0") as first:
        read_to_control(first)
        with serve(tmp_path, "--memory", "--port", "0") as second:
            _, error = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 2
        assert f"another broker is asked at the control socket {tmp_path}/control.sock" in error
        done = CliRunner().invoke(status, ["--control", str(tmp_path / "control.sock")])
        assert done.exit_code == 0, done.exception
        first.kill()
    # What a broker that was killed has left is no hindrance.
    with serve(tmp_path, "--memory", "--port", "0") as third:
        read_to_control(third)
        third.send_signal(signal.SIGTERM)
        assert third.stdout is not None and third.stdout.read()
    assert third.returncode == 0
