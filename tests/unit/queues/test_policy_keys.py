"""What a policy may say: each key with values that are taken and values that are refused."""

import pytest

from penstock.base.errors import OperatorError
from penstock.queues.policy_keys import KEYS, check_definition, without_effect

GOOD: dict[str, tuple[object, ...]] = {
    "alternate-exchange": ("", "spare"),
    "consumer-timeout": (0, 1),
    "dead-letter-exchange": ("", "dlx"),
    "dead-letter-routing-key": ("", "key"),
    "dead-letter-strategy": ("at-most-once", "at-least-once"),
    "message-ttl": (0, 1 << 62),
    "expires": (1,),
    "max-length": (0, 5),
    "max-length-bytes": (0, 5),
    "overflow": ("drop-head", "reject-publish", "reject-publish-dlx", "backpressure"),
    "delivery-limit": (-1, 0, 5),
    "last-value-key": ("routing-key", "x-id"),
    "alarm-action": ("block", "nack", "close"),
    "parked-full": ("stop", "nack", "close"),
    "depth-mark": (0, 1, 10**12),
    "ha-mode": ("all",),
    "ha-params": (1, 3),
    "ha-sync-mode": ("automatic", "manual"),
    "ha-sync-batch-size": (1,),
    "ha-promote-on-shutdown": ("always", "when-synced"),
    "ha-promote-on-failure": ("always", "when-synced"),
    "queue-mode": ("default", "lazy"),
    "queue-version": (1, 2),
    "max-in-memory-length": (0,),
    "max-in-memory-bytes": (0,),
    "queue-leader-locator": ("client-local", "balanced"),
    "initial-cluster-size": (0, 3),
    "consumer-disconnected-timeout": (0,),
    "max-age": ("1D",),
    "stream-max-segment-size-bytes": (0, 3_000_000_000),
    "max-lag-messages": (1, 10**12),
    "max-lag-bytes": (1, 10**12),
    "stream-filter-size-bytes": (16, 255),
}
BAD: dict[str, tuple[object, ...]] = {
    "alternate-exchange": (1, None),
    "consumer-timeout": (-1, "1", True),
    "dead-letter-exchange": (5,),
    "dead-letter-routing-key": (5,),
    "dead-letter-strategy": ("never", 1),
    "message-ttl": (-1, 1.5, "60000", True),
    "expires": (0, -1, "1"),
    "max-length": (-1, "ten", False),
    "max-length-bytes": (-1, [1]),
    "overflow": ("drop-tail", 1, None),
    "delivery-limit": ("5", True),
    "last-value-key": ("", 1),
    "alarm-action": ("shout", True),
    "parked-full": ("block", True),
    "depth-mark": (-1, "10MB", True),
    "ha-mode": ("some", 1, None),
    "ha-params": (0, "2", True, ["a"]),
    "ha-sync-mode": ("soon", True),
    "ha-sync-batch-size": (0, "1"),
    "ha-promote-on-shutdown": ("never",),
    "ha-promote-on-failure": (True,),
    "queue-mode": ("eager",),
    "queue-version": (0, 3, True),
    "max-in-memory-length": (-1,),
    "max-in-memory-bytes": (-1,),
    "queue-leader-locator": ("nearest",),
    "initial-cluster-size": (-1,),
    "consumer-disconnected-timeout": (-1,),
    "max-age": ("", 1),
    "stream-max-segment-size-bytes": (-1, 3_000_000_001),
    "max-lag-messages": (0, "5", True),
    "max-lag-bytes": (0, "5", True),
    "stream-filter-size-bytes": (15, 256),
}


# Keys that say something only beside another one.
BESIDE: dict[str, dict[str, object]] = {
    "ha-params": {"ha-mode": "exactly"},
    "ha-sync-mode": {"ha-mode": "all"},
    "ha-sync-batch-size": {"ha-mode": "all"},
    "ha-promote-on-shutdown": {"ha-mode": "all"},
    "ha-promote-on-failure": {"ha-mode": "all"},
}


def test_every_key_is_tried() -> None:
    assert GOOD.keys() == BAD.keys() == KEYS.keys()


@pytest.mark.parametrize("key", KEYS)
def test_values_that_make_sense_are_taken(key: str) -> None:
    for value in GOOD[key]:
        check_definition("p", {**BESIDE.get(key, {}), key: value}, False)


@pytest.mark.parametrize("key", KEYS)
def test_values_that_make_none_are_refused_by_name(key: str) -> None:
    for value in BAD[key]:
        with pytest.raises(OperatorError, match=f"policy 'p': .* is not a valid .*{key}"):
            check_definition("p", {**BESIDE.get(key, {}), key: value}, False)


def test_rabbitmqs_words() -> None:
    for table, words in (
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"message-ttl": "1"}, '"1" is not a valid message TTL'),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"overflow": "x"}, '"x" is not a valid overflow value'),
        ({"ha-sync-mod": "all"}, '[ha-sync-mod: "all"] are not recognised policy settings'),
    ):
        with pytest.raises(OperatorError) as caught:
            check_definition("p", table, False)
        assert str(caught.value).startswith(f"policy 'p': {words}")


@pytest.mark.parametrize("key", KEYS)
def test_what_operators_may_say(key: str) -> None:
    table = {key: GOOD[key][0]}
    if KEYS[key].is_operators:
        check_definition("p", table, True)
        return
    with pytest.raises(OperatorError, match="not recognised policy settings of an operator policy"):
        check_definition("p", table, True)


def test_mirrors_are_said_in_words_that_go_together() -> None:
    for table, words in (
        ({"ha-params": 2}, "ha-params means nothing without ha-mode"),
        ({"ha-sync-mode": "automatic"}, "ha-sync-mode means nothing without ha-mode"),
        ({"ha-mode": "all", "ha-params": 2}, '2 is not a valid .*: ha-mode "all" takes none'),
        ({"ha-mode": "exactly"}, 'ha-mode "exactly" takes a number of copies'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode "nodes" takes a list'),
        ({"ha-mode": "nodes", "ha-params": ["a", 1]}, 'ha-mode "nodes" takes a list'),
    ):
        with pytest.raises(OperatorError, match=words):
            check_definition("p", table, False)
    check_definition("p", {"ha-mode": "nodes", "ha-params": ["rabbit@a"]}, False)


def test_what_is_fixed_at_declaration_is_said_to_be() -> None:
    with pytest.raises(OperatorError, match="fixed when a queue is declared"):
        check_definition("p", {"max-priority": 5}, False)


def test_keys_of_other_kinds_of_queues_are_named() -> None:
    assert without_effect({"max-length": 1}) == []
    assert without_effect({"stream-filter-size-bytes": 20, "queue-mode": "lazy"}) == [
        "stream-filter-size-bytes has no effect: streams have no filters here",
        "queue-mode has no effect: there is one kind of classic queue here",
    ]
