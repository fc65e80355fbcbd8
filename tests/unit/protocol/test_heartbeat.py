"""Heartbeats: half an interval to send, two to be dead, and rest while reading is paused."""

import pytest

from penstock.protocol.heartbeat import Heartbeat

S = 1_000_000_000


def test_sending_is_due_half_an_interval_after_the_last_output() -> None:
    heartbeat = Heartbeat(10, 100 * S)
    assert not heartbeat.is_send_due(105 * S - 1)
    assert heartbeat.is_send_due(105 * S)
    heartbeat.sent(105 * S)
    assert not heartbeat.is_send_due(110 * S - 1)
    assert heartbeat.is_send_due(110 * S)


def test_a_peer_is_dead_after_two_silent_intervals() -> None:
    heartbeat = Heartbeat(10, 0)
    assert not heartbeat.is_peer_dead(20 * S - 1)
    assert heartbeat.is_peer_dead(20 * S)
    heartbeat.received(19 * S)
    assert not heartbeat.is_peer_dead(39 * S - 1)
    assert heartbeat.is_peer_dead(39 * S)


def test_a_paused_reader_blames_nobody_and_still_sends() -> None:
    heartbeat = Heartbeat(10, 0)
    heartbeat.pause()
    heartbeat.pause()
    assert not heartbeat.is_peer_dead(1_000 * S)
    assert heartbeat.is_send_due(1_000 * S)
    heartbeat.resume(1_000 * S)
    assert not heartbeat.is_peer_dead(1_020 * S - 1)
    assert heartbeat.is_peer_dead(1_020 * S)


def test_zero_switches_both_off() -> None:
    heartbeat = Heartbeat(0, 0)
    assert not heartbeat.is_send_due(2**62)
    assert not heartbeat.is_peer_dead(2**62)
    assert heartbeat.next_check_ns() is None


def test_the_next_check_is_the_earlier_deadline() -> None:
    heartbeat = Heartbeat(10, 0)
    assert heartbeat.next_check_ns() == 5 * S
    heartbeat.sent(18 * S)
    assert heartbeat.next_check_ns() == 20 * S
    heartbeat.pause()
    assert heartbeat.next_check_ns() == 23 * S


def test_one_second_is_half_a_second() -> None:
    assert Heartbeat(1, 0).next_check_ns() == S // 2


@pytest.mark.parametrize("interval_s", [-1, 65_536])
def test_the_interval_is_a_short(interval_s: int) -> None:
    with pytest.raises(AssertionError):
        Heartbeat(interval_s, 0)
