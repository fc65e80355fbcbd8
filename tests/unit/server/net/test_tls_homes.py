"""Which process the next client by TLS is probably for."""

from penstock.base.limits import TLS_HOMES
from penstock.broker.session.handover import NOT_ELSEWHERE
from penstock.server.net.tls_homes import FRESH_S, LATELY, TlsHomes


def test_nothing_speaks_for_any_at_first() -> None:
    assert TlsHomes().of("192.0.2.1", 0.0) == NOT_ELSEWHERE


def test_a_host_wants_what_it_wanted_for_a_while() -> None:
    homes = TlsHomes()
    homes.told("192.0.2.1", 1, 0.0)
    homes.told("192.0.2.2", 2, 0.0)
    homes.told("192.0.2.3", 2, 0.0)
    assert homes.of("192.0.2.1", FRESH_S - 1) == 1
    # Then it is one of all.
    assert homes.of("192.0.2.1", FRESH_S) == 2
    assert homes.of("198.51.100.9", 0.0) == 2
    homes.told("192.0.2.1", 3, FRESH_S)
    assert homes.of("192.0.2.1", FRESH_S) == 3


def test_what_most_wanted_is_what_they_wanted_lately() -> None:
    homes = TlsHomes()
    for number in range(3 * LATELY):
        homes.told(f"10.0.0.{number}", 1 if number < 2 * LATELY else 2, 0.0)
    assert homes.of("198.51.100.9", 0.0) == 2


def test_no_more_hosts_are_kept_than_may_be() -> None:
    homes = TlsHomes()
    homes.told("first", 1, 0.0)
    for number in range(TLS_HOMES.default):
        homes.told(str(number), 2, 0.0)
    assert homes.of("first", 0.0) == 2
    homes.told("0", 3, 0.0)
    homes.told("other", 3, 0.0)
    assert homes.of("0", 0.0) == 3


def test_this_worker_counts_as_any_other() -> None:
    homes = TlsHomes()
    homes.told("192.0.2.1", 1, 0.0)
    homes.told("192.0.2.1", NOT_ELSEWHERE, 0.0)
    assert homes.of("192.0.2.1", 1.0) == NOT_ELSEWHERE
    homes.told("192.0.2.2", NOT_ELSEWHERE, 0.0)
    assert homes.of("198.51.100.9", 1.0) == NOT_ELSEWHERE
