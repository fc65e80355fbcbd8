"""How long a peer may leave its socket alone."""

import socket

import pytest

from penstock.server.net.stall_timeout import StallTimeout, stall_timeout_ms, unsent_bytes

S = 1_000_000_000


@pytest.mark.parametrize(("heartbeat_s", "ms"), [(0, 0), (1, 25_000), (13, 26_000), (60, 120_000)])
def test_two_intervals_and_never_less_than_a_lost_host_takes(heartbeat_s: int, ms: int) -> None:
    assert stall_timeout_ms(heartbeat_s) == ms


def test_progress_begins_anew_and_an_empty_buffer_is_no_stall() -> None:
    patience = StallTimeout()
    assert not patience.is_over("c", 10, 0, 10, 0)
    assert not patience.is_over("c", 10, 0, 10, 24 * S)
    assert not patience.is_over("c", 10, 1, 10, 26 * S)
    assert not patience.is_over("c", 10, 1, 10, 50 * S)
    assert not patience.is_over("c", 0, 1, 10, 52 * S)
    assert len(patience) == 0
    assert not patience.is_over("c", 10, 1, 10, 53 * S)
    assert patience.is_over("c", 10, 1, 10, 78 * S)


def test_connections_that_are_gone_leave_nothing() -> None:
    patience = StallTimeout()
    for name in ("a", "b"):
        patience.is_over(name, 1, 0, 10, 0)
    patience.forget_gone({"b": None})
    assert len(patience) == 1


def test_what_the_peer_has_not_taken_is_counted() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        assert unsent_bytes(ours) == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        first = socket.create_connection(server.getsockname())
        second, _ = server.accept()
        with first, second:
            first.setblocking(False)
            sent = 0
            try:
                while True:
                    sent += first.send(b"x" * 65_536)
            except BlockingIOError:
                pass
            assert 0 < unsent_bytes(first) <= sent
    assert unsent_bytes(first) == 0, "and a closed socket has nothing"
