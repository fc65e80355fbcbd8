"""Names of queues in ids and listings: ordinary ones as they always were, no two alike."""

from itertools import product

import pytest

from penstock.base.shown_names import shown_name, vhost_and_name


@pytest.mark.parametrize(
    ("vhost", "name", "shown"),
    [
        ("/", "orders", "/orders"),
        ("/", "", "/"),
        ("tenant", "orders", "tenant/orders"),
        ("/prod", "orders", "/prod/orders"),
        ("a/b", "50% %2G", "a/b/50% %2G"),
        ("/", "prod/orders", "/prod%2Forders"),
        ("a", "b/c", "a/b%2Fc"),
        ("%2F", "%2F%25%/", "%2F/%252F%2525%%2F"),
    ],
)
def test_the_last_slash_begins_the_name(vhost: str, name: str, shown: str) -> None:
    assert shown_name(vhost, name) == shown
    assert vhost_and_name(shown) == (vhost, name)


def test_no_two_queues_share_a_name() -> None:
    pieces = ["", "a", "/", "%", "2F", "25"]
    names = {"".join(one) for one in product(pieces, repeat=4)}
    vhosts = ["/", "a", "/a", "a/", "a/a", "//", "%2F", "a%2Fa"]
    pairs = set(product(vhosts, names))
    assert len({shown_name(*one) for one in pairs}) == len(pairs)
    assert all(vhost_and_name(shown_name(*one)) == one for one in pairs)


def test_without_a_slash_it_names_no_virtual_host() -> None:
    assert vhost_and_name("orders") is None
