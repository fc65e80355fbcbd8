"""Where a command prints to: a full disk, a pipe nobody reads, nowhere, and another encoding."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from tests.patience import PATIENCE_S
from tests.unit.cli.broker_process import PENSTOCK, BrokerProcess

Done = tuple[int, str]


def ended(*words: str, to: str = "", **environment: str) -> Done:
    """Exit status, and what is said on standard error. to: a file that standard output is."""
    with open(to or os.devnull, "w") as stdout:
        done = subprocess.run(
            [*PENSTOCK, *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
            timeout=PATIENCE_S,
            check=False,
        )
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
@pytest.mark.parametrize("words", [("version",), ("queues",), ("--help",)], ids=" ".join)
def test_a_full_disk_is_said_in_one_line(broker: BrokerProcess, words: tuple[str, ...]) -> None:
    where = ("--control", broker.control) if words == ("queues",) else ()
    status, said = ended(*words, *where, to="/dev/full")
    assert said == "✘ standard output cannot be written: No space left on device\n"
    assert status == 2


def test_a_reader_that_has_had_enough_is_told_nothing(broker: BrokerProcess) -> None:
    with subprocess.Popen(
        [*PENSTOCK, "flow", "set", "--control", broker.control],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_no_standard_output_at_all(broker: BrokerProcess) -> None:
    line = f'exec "$@" --control {broker.control} >&-'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *PENSTOCK, "queues"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_an_encoding_lacks_is_an_escape(broker: BrokerProcess, tmp_path: Path) -> None:
    where = ("--control", broker.control)
    assert ended("queues", "declare", "日本", *where)[0] == 0
    path = tmp_path / "said"
    for words in (("queues",), ("queues", "show", "日本")):
        status, said = ended(*words, *where, to=str(path), PYTHONIOENCODING="latin-1")
        assert (status, said) == (0, ""), words
        shown = path.read_text(encoding="latin-1")
        assert "\\u65e5\\u672c" in shown and "\\u25" not in shown


def test_a_broker_serves_whatever_its_terminal_can_show(tmp_path: Path) -> None:
    """It ended with a traceback, behind its first line."""
    control = str(tmp_path / "control.sock")
    with subprocess.Popen(
        [*PENSTOCK, "serve", "--memory", "--port", "0", "--control", control],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        text=True,
        encoding="latin-1",
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        while "control" not in line:
            assert line, "it has ended"
            line = process.stdout.readline()
        assert line.startswith(" + control")
        process.terminate()
        process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize("words", [("log", "-f"), ("record", "events", "--follow")], ids=" ".join)
def test_following_ends_with_ctrl_c_as_it_says(
    broker: BrokerProcess, words: tuple[str, ...]
) -> None:
    with broker.connect() as connection:
        connection.channel().queue_declare("seen")
    # Whoever runs the tests in the background of a shell ignores it, and so would the command.
    command = ["env", "--default-signal=INT", *PENSTOCK, *words, "--control", broker.control]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        # It waits for more.
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_broker_whose_words_nobody_reads_stops_cleanly(tmp_path: Path) -> None:
    """What it has kept counts as written by a crash otherwise, and comes again as redelivered."""
    data = tmp_path / "data"
    where = ("--data", str(data), "--port", "0", "--control", str(tmp_path / "control.sock"))
    with subprocess.Popen(
        [*PENSTOCK, "serve", *where], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 1
    assert not (tmp_path / "control.sock").exists()
    assert [one.name for one in data.glob("vhosts/*/CLEAN")] == ["CLEAN"]


@pytest.mark.parametrize("words", [("why",), ("flow", "top", "--once"), ("replay", "r.pflow")])
@pytest.mark.parametrize("window", ["nan", "inf", "0"])
def test_a_window_that_is_none(words: tuple[str, ...], window: str) -> None:
    """The broker was said to have got malformed JSON, where one was there."""
    done = CliRunner().invoke(cli, [*words, "--window", window])
    assert done.exit_code == 2 and "Invalid value for '--window'" in done.output
