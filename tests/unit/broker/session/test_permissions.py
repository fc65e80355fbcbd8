"""Permissions while the broker runs: set, taken away, kept; reliability F101, F103 to F105.

RabbitMQ's answers to each operation are compared in tests/conformance/test_permissions.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.config import TopicPermissionConfig, UserConfig
from penstock.base.errors import OperatorError
from penstock.base.limits import PERMISSIONS_MAX, RIGHTS_REMEMBERED
from penstock.broker.admin import users, vhosts
from penstock.broker.session.audit import Audit
from penstock.broker.session.passwords import SHA256, hash_password
from penstock.broker.session.recheck import CONNECTIONS_AT_ONCE
from penstock.broker.vhost.rights import FULL, READ, WRITE, Permission, Rights, TopicPermission
from penstock.protocol import methods as m
from tests.unit.broker.peer import Bed, publish
from tests.unit.server.durable_bed import DurableBed

GUEST = "guest"


def app() -> UserConfig:
    """A user that the configuration does not name."""
    return UserConfig("app", "", False, (), hash_password("pw", b"salt"), SHA256)


def test_a_publish_that_has_its_route_is_refused_when_the_right_goes() -> None:
    """F105: the route is remembered by the bytes of the method, and the right is gone at once."""
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"one", b"two")
    bed.broker.permissions.set(GUEST, "/", Permission(".*", "^x", ".*"))
    peer.publish("q", b"three")
    close = peer.one(m.ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (403, 60, 40)
    assert bed.actor("q").messages.ready_count() == 2
    bed.settle()


def test_rights_of_others_and_of_other_virtual_hosts_do_not_move() -> None:
    bed = Bed(vhosts=("/", "t"), users=(UserConfig(GUEST, GUEST), UserConfig("other", "other")))
    peers = [bed.connect("here"), bed.connect("there", vhost="t")]
    bed.broker.permissions.set("other", "/", Permission())
    bed.broker.permissions.set(GUEST, "t", Permission("", "", ""))
    peers[0].call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peers[1].say(1, m.QueueDeclare("q"))
    assert peers[1].one(m.ChannelClose).reply_code == 403


def test_a_user_of_the_configuration_may_do_everything_until_something_is_set() -> None:
    bed = Bed()
    permissions = bed.broker.permissions
    assert permissions.of(GUEST, "/") == FULL
    permissions.clear(GUEST, "/")
    assert permissions.of(GUEST, "/") is None and list(permissions.rows()) == []
    bed.broker.set_user(app())
    assert permissions.of("app", "/") is None


def test_what_is_set_outlives_the_broker(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "db")
    bed.broker.set_user(app())
    permissions = bed.broker.permissions
    permissions.set("app", "/", Permission("^a", "^b", ""))
    permissions.set_topic("app", "/", "amq.topic", TopicPermission("^a", ""))
    permissions.set_topic("app", "/", "gone", TopicPermission("^a", ""))
    permissions.clear_topics("app", "/", "gone")
    permissions.clear(GUEST, "/")
    bed.close()
    again = DurableBed(tmp_path / "db")
    permissions = again.broker.permissions
    assert list(permissions.rows()) == [("app", "/", Permission("^a", "^b", ""))]
    rows = [("app", "/", "amq.topic", TopicPermission("^a", ""))]
    assert list(permissions.topic_rows()) == rows
    rights = permissions.rights("app", "/")
    assert rights.may_topic(WRITE, "amq.topic", "ab") and not rights.may_topic(
        READ, "amq.topic", "ab"
    )
    permissions.clear("app", "/")
    permissions.clear_topics("app", "/")
    again.close()
    last = DurableBed(tmp_path / "db")
    assert list(last.broker.permissions.rows()) == []
    assert list(last.broker.permissions.topic_rows()) == []
    assert last.restored.notes == [
        "user 'app' may open no virtual host: no permissions were set for it, see "
        "`penstock permissions set`"
    ]
    last.close()
    # Of several workers another one may have what this user may do.
    worker = DurableBed(tmp_path / "db", cores=2)
    assert worker.restored.notes == []
    worker.close()


def test_what_cannot_be_changes_nothing() -> None:
    permissions = Bed().broker.permissions
    with pytest.raises(OperatorError, match="look-ahead"):
        permissions.set(GUEST, "/", Permission(".*", "(?!a)", ".*"))
    with pytest.raises(OperatorError, match="1024 bytes"):
        permissions.set_topic(GUEST, "/", "x", TopicPermission("a" * 1025, ""))
    with pytest.raises(OperatorError, match="no vhost 'v'; one of: /"):
        permissions.set(GUEST, "v", FULL)
    with pytest.raises(OperatorError, match="no user 'u'; one of: guest"):
        permissions.clear("u", "/")
    assert permissions.of(GUEST, "/") == FULL and list(permissions.topic_rows()) == []


def test_there_are_no_more_than_may_be() -> None:
    permissions = Bed().broker.permissions
    for number in range(PERMISSIONS_MAX.default):
        permissions.bring_back(f"u{number}", "/", FULL)
    with pytest.raises(OperatorError, match="permissions_max"):
        permissions.set(GUEST, "/", FULL)
    permissions.users = {"u1": app()}
    permissions.set("u1", "/", Permission())


def test_names_in_patterns_of_topics_are_no_patterns() -> None:
    """F101."""
    for user, key in ((".*", "me"), ("{vhost}", "/"), ("a|b", "a"), ("(", "x")):
        rights = Rights(user, "/")
        rights.change(FULL, {"x": TopicPermission("^{username}$", "^{vhost}-{client_id}$")})
        assert not rights.may_topic(WRITE, "x", key) and rights.may_topic(WRITE, "x", user)
        assert rights.may_topic(READ, "x", "/-{client_id}") and rights.may_topic(READ, "y", key)


def test_a_name_that_makes_a_pattern_too_large_is_allowed_nothing() -> None:
    rights = Rights("u" * 255, "/")
    rights.change(FULL, {"x": TopicPermission("{username}" * 100, "")})
    assert not rights.may_topic(WRITE, "x", "u" * 25_500)


def test_no_more_answers_are_remembered_than_may_be() -> None:
    rights = Rights(GUEST, "/")
    rights.change(Permission("", "^a", ""), {})
    for number in range(3 * RIGHTS_REMEMBERED.default):
        assert rights.may(WRITE, f"a{number}") and not rights.may(WRITE, f"b{number}")
    assert len(rights._answers) <= RIGHTS_REMEMBERED.default


def test_a_message_in_the_name_of_another() -> None:
    """user-id is checked, but of who has the tag impersonator."""
    bed = Bed(users=(UserConfig(GUEST, GUEST, False, ("impersonator",)),))
    rights = bed.broker.permissions.rights(GUEST, "/")
    assert rights.is_impersonator
    bed.broker.access.users[GUEST] = UserConfig(GUEST, GUEST)
    bed.broker.permissions.user_changed(GUEST)
    assert not rights.is_impersonator


def test_a_user_id_that_is_no_text_closes_the_channel_alone() -> None:
    """As RabbitMQ, which looks at bytes; it sends them back as they are."""
    peer = Bed().connect(channels=2)
    peer.send(publish(1, "", "q", b"x", (0x0010, b"\x02\xff\xfe")))
    close = peer.one(m.ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (406, 60, 40)
    assert close.reply_text == (
        "PRECONDITION_FAILED - user_id property set to '\\xff\\xfe' but authenticated user was "
        "'guest'"
    )
    peer.call(2, m.QueueDeclare("q"), m.QueueDeclareOk)


def test_consumers_of_what_may_not_be_read_any_more_are_cancelled() -> None:
    """F105."""
    bed = Bed()
    peer = bed.connect()
    for name in ("keep", "lose"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
        peer.call(1, m.BasicConsume(name, name), m.BasicConsumeOk)
    bed.broker.permissions.set(GUEST, "/", Permission(".*", ".*", "^keep$"))
    bed.run()
    assert peer.one(m.BasicCancel).consumer_tag == "lose"
    peer.publish("lose", b"stays")
    peer.publish("keep", b"comes")
    assert peer.bodies() == [b"comes"]
    bed.settle()


def test_connections_of_a_user_are_looked_at_a_few_at_a_time() -> None:
    """Issue 18, 2: nobody waits for all connections of somebody whose rights have changed."""
    bed = Bed()
    first = bed.connect()
    first.call(1, m.QueueDeclare("lose"), m.QueueDeclareOk)
    peers = [bed.connect(f"peer{number}") for number in range(5 * CONNECTIONS_AT_ONCE)]
    for peer in peers:
        peer.call(1, m.BasicConsume("lose", "tag"), m.BasicConsumeOk)

    def left() -> int:
        return len(bed.actor("lose").consumers)

    bed.broker.permissions.set(GUEST, "/", Permission(".*", ".*", "^keep$"))
    cleanup = bed.broker.cleanup
    bed.broker.scheduler.ready.remove(cleanup)
    cleanup.is_ready = False
    turns = 0
    before = len(peers)
    while cleanup.errands:
        assert before - left() <= CONNECTIONS_AT_ONCE
        before = left()
        cleanup.turn(1)
        turns += 1
    assert left() == 0 and turns >= 4
    bed.run()
    assert [peer.one(m.BasicCancel).consumer_tag for peer in peers] == ["tag"] * len(peers)
    bed.settle()


def test_those_who_are_put_out_are_found_by_their_virtual_host() -> None:
    """Steps are for those who are in it, however many others there are."""
    bed = Bed()
    vhosts.add(bed.broker, "v")
    bed.broker.permissions.set(GUEST, "v", FULL)
    for number in range(50):
        bed.connect(f"other{number}")
    for number in range(3):
        bed.connect(f"mine{number}", vhost="v")
    assert sum(1 for _ in users.put_out(bed.broker, "it is over", vhost="v")) == 3
    bed.run()
    assert sum(1 for one in bed.broker.connections.values() if one.state(0) == "running") == 50
    bed.settle()


def test_what_clients_do_to_topology_is_told() -> None:
    told: list[tuple[object, ...]] = []

    class Told(Audit):
        def note(
            self, user: str, address: str, did: str, vhost: str, what: Mapping[str, object]
        ) -> None:
            told.append((user, address, did, vhost, dict(what)))

    bed = Bed()
    bed.broker.host.audit = Told()
    peer = bed.connect("10.0.0.1:7")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("q", passive=True), m.QueueDeclareOk)
    peer.call(1, m.QueueBind("q", "amq.direct", "k"), m.QueueBindOk)
    peer.publish("q", b"one")
    peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    peer.say(1, m.ExchangeDelete("amq.direct"))
    who = ("guest", "10.0.0.1:7")
    assert told == [
        (*who, "queue.declare", "/", {"queue": "q", "durable": False, "exclusive": False}),
        (*who, "queue.bind", "/", {"queue": "q", "exchange": "amq.direct", "routing_key": "k"}),
        (*who, "queue.delete", "/", {"queue": "q"}),
        (
            *who,
            "access refused",
            "/",
            {
                "code": 403,
                "text": "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
                "method": "40.20",
                "count": 1,
            },
        ),
    ]


def test_topic_permissions_of_the_configuration_are_changed_there() -> None:
    users = (UserConfig(GUEST, GUEST), UserConfig("app", "pw"))
    rows = (TopicPermissionConfig("app", "/", "amq.topic", r"^{username}\.", ""),)
    bed = Bed(users=users, topic_permissions=rows)
    permissions = bed.broker.permissions
    rights = permissions.rights("app", "/")
    assert rights.may_topic(WRITE, "amq.topic", "app.one")
    assert not rights.may_topic(WRITE, "amq.topic", "other.one")
    assert not rights.may_topic(READ, "amq.topic", "app.one")
    assert permissions.rights(GUEST, "/").may_topic(WRITE, "amq.topic", "other.one")
    assert [row[:3] for row in permissions.topic_rows()] == [("app", "/", "amq.topic")]
    with pytest.raises(OperatorError, match="are in the configuration, which goes first"):
        permissions.set_topic("app", "/", "amq.topic", TopicPermission(".*", ".*"))
    with pytest.raises(OperatorError, match="are in the configuration, which goes first"):
        permissions.clear_topics("app", "/")
    permissions.set("app", "/", Permission(".*", ".*", ""))
    assert not permissions.rights("app", "/").may_topic(WRITE, "amq.topic", "b")
    permissions.bring_back_topics("app", "/", {"amq.topic": TopicPermission(".*", ".*")})
    assert not permissions.rights("app", "/").may_topic(WRITE, "amq.topic", "b")
    with pytest.raises(OperatorError, match="both must be in the configuration"):
        Bed(users=users, topic_permissions=(replace(rows[0], vhost="t"),))
