"""Bringing back what was kept: the configuration goes first, and a bad row is named."""

import pytest

from penstock.base.config import EntryLimits, UserConfig
from penstock.base.errors import OperatorError
from penstock.base.policy import Policy
from penstock.broker.admin.restore import restore
from penstock.broker.session.passwords import SHA256, hash_password
from penstock.broker.vhost.catalogue_rows import (
    BindingRow,
    ExchangeRow,
    ParameterRow,
    StoredCatalogue,
    StoredQueue,
    UserRow,
    VhostRow,
    arguments_bytes,
)
from penstock.protocol import methods as m
from penstock.protocol.sasl import Credentials
from tests.unit.broker.peer import Bed

POLICY = '{"vhost":"/","name":"p","pattern":"^q","definition":{"max-length":1}}'


def test_a_queue_comes_back_whole() -> None:
    """Its rules, its id, its place in routing; declaring it again is no news."""
    bed = Bed()
    arguments = arguments_bytes({"x-max-length": 5, "x-dead-letter-exchange": "e"})
    done = restore(
        bed.broker,
        StoredCatalogue(
            exchanges=[ExchangeRow("/", "e", "fanout", True, True)],
            queues=[StoredQueue(41, "/", "q", False, arguments)],
            bindings=[BindingRow("/", "e", False, "q", "k", b"")],
        ),
    )
    assert (done.exchanges, done.queues, done.bindings, done.notes) == (1, 1, 1, [])
    actor = bed.broker.vhosts["/"].queues["q"]
    assert actor.queue_id == 41 and actor.durable and actor.owner == ""
    assert actor.queue_limits is not None and actor.queue_limits.rules.max_length == 5
    exchange = bed.broker.vhosts["/"].find_exchange("e")
    assert exchange is not None and exchange.internal and exchange.auto_delete
    peer = bed.connect()
    declared = m.QueueDeclare(
        "q", durable=True, arguments={"x-max-length": 5, "x-dead-letter-exchange": "e"}
    )
    peer.call(1, declared, m.QueueDeclareOk)
    peer.publish("q", b"one")
    assert peer.call(1, m.QueueDeclare("q", passive=True), m.QueueDeclareOk).message_count == 1
    peer.call(1, m.QueueUnbind("q", "e", "k"), m.QueueUnbindOk)
    assert bed.broker.vhosts["/"].find_exchange("e") is None, "auto-delete, and its last binding"


def test_more_queues_than_a_limit_allows_come_back() -> None:
    bed = Bed(vhost_limits=(EntryLimits("vhost", "/", {"max-queues": 1}),))
    queues = [StoredQueue(number, "/", f"q{number}") for number in (1, 2, 3)]
    assert restore(bed.broker, StoredCatalogue(queues=queues)).queues == 3


def test_the_configuration_goes_first() -> None:
    bed = Bed(
        users=(UserConfig("app", "right"),),
        policies=(Policy("/", "p", "^z", {"max-length": 9}),),
        user_limits=(EntryLimits("user", "app", {"max-channels": 3}),),
    )
    done = restore(
        bed.broker,
        StoredCatalogue(
            users=[UserRow("app", hash_password("wrong", b"salt"), SHA256)],
            parameters=[
                ParameterRow("/", "policy", "p", POLICY),
                ParameterRow("", "user-limits", "app", '{"max-channels":7}'),
            ],
        ),
    )
    assert done.notes == ["user 'app' is as the configuration says, not as it was kept"]
    assert bed.broker.access.check(Credentials("app", "right"), "::1") == ""
    assert [one.pattern for one in bed.broker.policies.listing(False)] == ["^z"]
    assert [dict(row.limits) for row in bed.broker.limits.rows()] == [{"max-channels": 3}]


def test_users_and_virtual_hosts_made_while_it_ran() -> None:
    bed = Bed()
    users = [
        UserRow("app", hash_password("pw", b"salt"), SHA256, "a,b"),
        UserRow("none", "", SHA256),
    ]
    done = restore(
        bed.broker,
        StoredCatalogue(
            vhosts=[VhostRow("made"), VhostRow("/")],
            users=users,
            parameters=[ParameterRow("made", "vhost-limits", "limits", '{"max-queues":2}')],
        ),
    )
    assert [note.partition(" may ")[0] for note in done.notes] == ["user 'app'", "user 'none'"]
    assert list(bed.broker.vhosts) == ["/", "made"]
    assert bed.broker.access.users["app"].tags == ("a", "b")
    assert bed.broker.access.users["none"].tags == ()
    assert bed.broker.vhosts["made"].queue_limit == 2
    peer = bed.connect(vhost="made")
    peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
    bed.broker.policy_manager.set(Policy("made", "p", "^q", {"max-length": 1}), False)


def test_a_virtual_host_that_was_taken_out_of_the_configuration() -> None:
    bed = Bed()
    done = restore(bed.broker, StoredCatalogue(queues=[StoredQueue(1, "old", "q")]))
    assert "q" in bed.broker.vhosts["old"].queues
    assert len(done.notes) == 1 and "vhost 'old' is not in the configuration" in done.notes[0]


def test_what_has_no_effect_is_said() -> None:
    bed = Bed()
    rows = [
        ParameterRow("", "user-limits", "gone", '{"max-channels":7}'),
        ParameterRow("/", "other", "x", "1"),
    ]
    assert restore(bed.broker, StoredCatalogue(parameters=rows)).notes == [
        "user-limits 'gone' is kept, and has no effect",
        "other 'x' is kept, and has no effect",
    ]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            StoredCatalogue(exchanges=[ExchangeRow("/", "e", "odd")]),
            "ExchangeRow.*unknown exchange type",
        ),
        (
            StoredCatalogue(queues=[StoredQueue(1, "/", "q", False, b"\x00")]),
            "StoredQueue.*past the end",
        ),
        (
            StoredCatalogue(bindings=[BindingRow("/", "e", False, "q", "", b"")]),
            "BindingRow.*missing",
        ),
        (StoredCatalogue(parameters=[ParameterRow("/", "policy", "p", "{")]), "ParameterRow"),
        (
            StoredCatalogue(parameters=[ParameterRow("/", "policy", "p", "{}")]),
            "ParameterRow.*name",
        ),
    ],
)
def test_a_row_that_cannot_be_is_named(kept: StoredCatalogue, said: str) -> None:
    with pytest.raises(OperatorError, match=f"cannot bring back {said}"):
        restore(Bed().broker, kept)
