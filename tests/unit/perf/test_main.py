"""Options as typed: sizes, arguments, and errors in words. Nothing here reaches a broker."""

import click
import pytest
from click.testing import CliRunner

from penstock.perf.main import SizeRange, _arguments, command


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12", (12, 12)), ("1k", (1024, 1024)), ("100-4KB", (100, 4096)), ("1m", (1 << 20, 1 << 20))],
)
def test_a_size_is(text: str, expected: tuple[int, int]) -> None:
    assert SizeRange().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["", "k", "11", "20-12", "1x", "-5", "1kk", "600m"])
def test_a_size_is_not(text: str) -> None:
    with pytest.raises(click.BadParameter):
        SizeRange().convert(text, None, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-q", "5", "-A", "10"], "--multi-ack-every 10 with --prefetch 5"),
        (["-qp", "q-%d"], "--queue-pattern-to"),
        (["-qa", "x-max-length"], "name=value"),
        (["-h", "http://x"], "not an AMQP address"),
        (["-x", "0", "-y", "0"], "nothing to do"),
        (["-qa", f"x-max-length={1 << 63}"], "9223372036854775808 is more than a field of AMQP"),
        (["-qa", "x-max-length=" + "9" * 5000], "is more than a field of AMQP"),
        (["-qa", "n" * 256 + "=1"], "--queue-argument 'nnn"),
        (["-u", "ü" * 128], "has 256 bytes; a name in AMQP has at most 255"),
        (["-u", "\udcff"], "is no text in UTF-8"),
        (["-e", "e" * 256], "--exchange 'eee"),
        (["-t", "t" * 256], "--type 'ttt"),
        (["-k", "k" * 256], "--routing-key 'kkk"),
        (["-qp", "%c", "-qpf", "1114112", "-qpt", "1114112"], "needs one number, as in perf-%d"),
        (["-qp", "q-%d", "-qpt", "9999999999"], "names 9999999999 queues"),
        (["-r", "nan"], "--rate nan is not a number"),
        (["-z", "nan"], "--time nan is not a number"),
        (["--warm-up", "nan"], "--warm-up nan is not a number"),
        (["--grace", "nan"], "--grace nan is not a number"),
        (["-R", "nan"], "--consumer-rate nan is not a number"),
        (["-h", "amqp://h/" + "v" * 256], "the virtual host's name has 256 bytes"),
        (["-h", "amqp://h?heartbeat=" + "9" * 5000], "expected a number 0..65535"),
    ],
)
def test_wrong_options_are_explained(options: list[str], words: str) -> None:
    result = CliRunner().invoke(command, options)
    assert isinstance(result.exception, SystemExit) and result.exit_code != 0
    assert words in " ".join(result.output.split())


def test_what_is_no_number_is_a_text_of_an_argument() -> None:
    assert _arguments(("a=--5", "b=-5", "c=5x", "d=")) == {"a": "--5", "b": -5, "c": "5x", "d": ""}


@pytest.mark.parametrize("options", [["-h"], ["-h", "-x", "2"]], ids=" ".join)
def test_h_is_help_unless_an_address_follows(options: list[str]) -> None:
    """PerfTest's -h is the address, and stays that (above); everywhere else it is help."""
    result = CliRunner().invoke(command, options)
    assert result.exit_code == 0 and result.output.startswith("Usage: ")


def test_help_tells_the_exit_status() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0 and "4 messages were lost" in result.output


@pytest.mark.parametrize(
    "options",
    [["-h", "nonsense"], ["-x", "0", "-y", "0"], ["-q", "5", "-A", "10"], ["-z", "inf"]],
    ids=" ".join,
)
def test_wrong_options_have_the_status_that_help_tells(options: list[str]) -> None:
    assert CliRunner().invoke(command, options).exit_code == 2


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".de"])
def test_a_host_that_cannot_be_one(host: str) -> None:
    result = CliRunner().invoke(command, ["-h", f"amqp://{host}/", "-z", "1"])
    assert result.exit_code == 1 and "is no name of a host" in result.output
