"""The checks of a cluster's histories find what was planted, and let through what is allowed."""

from pathlib import Path

import pytest

from penstock.demo.cluster_history import (
    CONFIRMED,
    CONNECTED,
    DELIVERED,
    SENT,
    Happened,
    judge,
    read_history,
    write_history,
)


def good(count: int, *, is_stream: bool = False) -> list[Happened]:
    """Everything sent, confirmed and delivered once."""
    published = [
        Happened(number / 100, kind, "p", number)
        for number in range(1, count + 1)
        for kind in (SENT, CONFIRMED)
    ]
    consumed = [
        Happened(number / 100 + 1, DELIVERED, "p", number, number - 1 if is_stream else -1)
        for number in range(1, count + 1)
    ]
    return [*published, Happened(0.5, CONNECTED, "", 0), *consumed]


def test_a_good_history_is_good() -> None:
    for is_stream in (False, True):
        verdict = judge(good(100, is_stream=is_stream), is_stream=is_stream)
        assert verdict.is_good and verdict.duplicates == 0
        assert (verdict.sent, verdict.confirmed, verdict.delivered) == (100, 100, 100)


@pytest.mark.parametrize("number", [1, 50, 100])
def test_a_lost_message_is_found_wherever_it_was(number: int) -> None:
    history = [o for o in good(100) if not (o.kind == DELIVERED and o.number == number)]
    assert judge(history).lost == [("p", number)]


def test_what_was_not_confirmed_may_be_lost() -> None:
    history = [o for o in good(10) if o.number != 10 or o.kind == SENT]
    assert judge(history).is_good


def test_an_invented_message_is_found() -> None:
    history = [*good(10), Happened(2, DELIVERED, "p", 11)]
    assert judge(history).invented == [("p", 11)]


def test_a_message_before_an_earlier_one_of_its_publisher_is_found() -> None:
    history = good(10)
    history[-1], history[-2] = history[-2], history[-1]
    assert judge(history).disordered == [("p", 9)]


def test_a_delivery_again_needs_a_reason() -> None:
    history = [*good(10), Happened(1.2, DELIVERED, "p", 10)]
    assert judge(history).repeated == [("p", 10)]
    marked = [*good(10), Happened(1.2, DELIVERED, "p", 10, is_again=True)]
    assert judge(marked).is_good and judge(marked).duplicates == 1
    sent_again = [Happened(0.3, SENT, "p", 10), *history]
    assert judge(sent_again).is_good
    reconnected = [*history[:-1], Happened(1.2, CONNECTED, "", 0), history[-1]]
    assert judge(reconnected).is_good


def test_a_leader_may_have_delivered_what_its_log_never_had() -> None:
    history = [
        Happened(at_s, kind, "p", number)
        for at_s, kind, number in ((1.0, SENT, 1), (1.1, SENT, 2), (9.0, CONFIRMED, 1))
    ]
    history += [Happened(1.2, DELIVERED, "p", 1), Happened(8.9, DELIVERED, "p", 2)]
    judged = judge([*history, Happened(8.9, DELIVERED, "p", 1)])
    assert judged.is_good and judged.early == 1
    # A quorum queue delivers what its log has.
    again = [*history, Happened(8.9, DELIVERED, "p", 1)]
    assert judge(again, is_quorum=True).repeated == [("p", 1)]
    # By the next leader, twice: its log has it twice.
    assert judge([*history, Happened(8.95, DELIVERED, "p", 2)]).repeated == [("p", 2)]
    assert judge([*history, Happened(8.95, DELIVERED, "p", 2, is_again=True)]).is_good
    # It was confirmed, so the log had it.
    early = [Happened(1.15, CONFIRMED, "p", 1), *history[:2], *history[3:]]
    assert judge([*early, Happened(8.9, DELIVERED, "p", 1)]).repeated == [("p", 1)]


def test_each_copy_of_what_was_sent_twice_may_come_once_without_the_mark() -> None:
    history = [Happened(at_s, SENT, "p", 1) for at_s in (1.0, 2.0)]
    history.append(Happened(2.5, CONFIRMED, "p", 1))
    for at_s, is_again in ((3.0, True), (3.1, False), (8.0, True), (8.1, True), (20.0, False)):
        history.append(Happened(at_s, DELIVERED, "p", 1, is_again=is_again))
    assert judge(history).is_good
    third = Happened(20.1, DELIVERED, "p", 1)
    assert judge([*history, third]).repeated


def test_what_was_acknowledged_long_ago_may_not_come_again() -> None:
    history = good(10)
    history[-1] = Happened(20, DELIVERED, "p", 10)
    history += [Happened(21, CONNECTED, "", 0), Happened(22, DELIVERED, "p", 9)]
    assert judge(history).repeated == [("p", 9)]


def test_a_gap_in_a_stream_is_found() -> None:
    history = good(10, is_stream=True)
    del history[-3]
    assert judge(history, is_stream=True).gaps == [8]


def test_a_history_is_what_it_was_when_it_is_read_again(tmp_path: Path) -> None:
    history = good(10)
    write_history(tmp_path / "h.jsonl", history)
    assert read_history(tmp_path / "h.jsonl") == history
