"""The whole benchmark in smoke mode: every message arrives as sent, the counts are as known."""

import shutil
import sys
from pathlib import Path

import pytest

from bench.brokers import BrokerFailed, Target, penstock_target
from bench.run import PERSISTENT_ROWS, choose_targets, parse_arguments, serve_words, told_apart
from bench.workloads import ROW_NAMES
from tests.bench.programs import output_of, refuses

# The same on every broker. It changes only when a row or its count is changed on purpose.
COUNTS_HASH = "5fe52c0593c42bff"
# The same without the rows that the relay cannot play.
LIMIT_HASH = "3b82562bb2fb58d3"
HEADERS = Path("/usr/include/openssl/ssl.h")


def test_without_a_choice_every_row_runs() -> None:
    assert parse_arguments([]).rows == list(ROW_NAMES)
    assert parse_arguments(["--only", "pp,a16"]).rows == ["pp", "a16"]


def test_one_word_chooses_all_rows_that_keep_messages() -> None:
    assert parse_arguments(["--only", "pp,persistent"]).rows == ["pp", *PERSISTENT_ROWS]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ("--data", "data")),
        (["--profile=none"], ("--profile=none", "--data", "data")),
        (["--memory"], ("--memory",)),
        (["--data", "/mnt"], ("--data", "/mnt")),
    ],
)
def test_penstock_keeps_its_messages_unless_told(
    options: list[str], words: tuple[str, ...]
) -> None:
    assert serve_words(options) == words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "activemq"], "not 'activemq'"),
        (["--target", "lavinmq=/no/such/program"], "--lavinmq /no/such/program: No such file"),
        (["--lavinmq", "/bin/false"], "does not say its version"),
        (["--target", "penstock", "--target", "penstock"], "two targets have the same name"),
    ],
)
def test_a_broker_that_is_not_there_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(BrokerFailed, match=said):
        choose_targets(parse_arguments(words))


def test_one_build_on_several_pythons_is_called_after_them() -> None:
    """And only then: results are compared by the name."""
    targets = [
        Target("penstock", "penstock", python="3.11"),
        Target("penstock", "penstock", python="3.14-jit"),
        Target("penstock-compiled", "penstock", python="3.14"),
        Target("limit", "limit"),
    ]
    names = [target.name for target in told_apart(targets)]
    assert names == ["penstock-3.11", "penstock-3.14-jit", "penstock-compiled", "limit"]
    assert penstock_target("").python.startswith("{}.{}".format(*sys.version_info[:2]))


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "--only nonsense", "--repeats 0", "--seconds 0", "--warm-up -1")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator needs gcc")
def test_every_row_delivers_every_message() -> None:
    output = output_of("run.py", "--smoke")
    assert f"counts {COUNTS_HASH}" in output
    assert f"limit: 19 rows, counts {LIMIT_HASH}" in output, "the relay loses nothing either"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator needs gcc")
@pytest.mark.skipif(not HEADERS.exists(), reason="a generator that speaks TLS needs libssl-dev")
def test_rows_through_tls_count_the_same() -> None:
    plain = output_of("run.py", "--smoke", "--only", "b1k,d1k")
    through_tls = output_of("run.py", "--smoke", "--only", "b1k,d1k", "--tls")
    assert counts_of(plain) == counts_of(through_tls)


def counts_of(output: str) -> str:
    """What a smoke run said it counted."""
    return output.split("counts ")[1].split()[0]
