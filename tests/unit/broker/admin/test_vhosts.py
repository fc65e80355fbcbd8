"""Virtual hosts made and deleted while the broker runs."""

from pathlib import Path

import pytest

from penstock.base.config import PermissionConfig, UserConfig
from penstock.base.errors import OperatorError
from penstock.base.policy import Policy
from penstock.base.steps import whole
from penstock.broker.admin import vhosts
from penstock.broker.admin.definitions_import import importing
from penstock.broker.vhost.rights import Permission
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from tests.unit.broker.peer import Bed, Peer, start_ok
from tests.unit.server.durable_bed import DurableBed, topology


def fill(bed: Bed, vhost: str, count: int) -> None:
    """Queues, an exchange with bindings, a policy, a limit and a permission."""
    peer = bed.connect(f"filler of {vhost}", vhost=vhost)
    peer.say(1, m.ExchangeDeclare("news", "fanout", durable=True))
    peer.one(m.ExchangeDeclareOk)
    for number in range(count):
        peer.say(1, m.QueueDeclare(f"q{number}", durable=True))
        peer.one(m.QueueDeclareOk)
        peer.say(1, m.QueueBind(f"q{number}", "news", "key"))
        peer.one(m.QueueBindOk)
    policy = Policy(vhost, "short", "^q", {"max-length": 3}, 0, "queues")
    bed.broker.policy_manager.set(policy, False)
    bed.broker.limits.set("vhost", vhost, {"max-connections": 10})
    bed.broker.permissions.set("guest", vhost, Permission("", "", ".*"))


def test_what_is_deleted_takes_everything_with_it(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "db")
    vhosts.add(bed.broker, "shop")
    vhosts.add(bed.broker, "kept")
    fill(bed, "shop", 40)
    fill(bed, "kept", 1)
    before = topology(bed.broker)
    watcher = bed.connect("watcher", vhost="shop")
    deletion = vhosts.delete(bed.broker, "shop")
    assert not deletion.is_done, "50 things do not go in one turn"
    with pytest.raises(OperatorError, match="is being deleted already"):
        vhosts.delete(bed.broker, "shop")
    bed.run()
    assert deletion.is_done and (deletion.connections, deletion.queues) == (2, 40)
    close = watcher.one(m.ConnectionClose)
    assert (close.reply_code, close.class_id) == (320, 0)
    assert close.reply_text == "CONNECTION_FORCED - vhost 'shop' is deleted"
    assert list(bed.broker.vhosts) == ["/", "kept"]
    assert bed.broker.queues_in("shop") == []
    bed.close()
    again = DurableBed(tmp_path / "db")
    assert list(again.broker.vhosts) == ["/", "kept"]
    after = topology(again.broker)
    for kind, rows in before.items():
        assert after[kind] == {row for row in rows if row[0] != "shop"}
    assert [row.name for row in again.broker.limits.rows()] == ["kept"]
    assert [one.vhost for one in again.broker.policies.listing(False)] == ["kept"]
    # The same name begins with nothing.
    vhosts.add(again.broker, "shop")
    assert again.broker.permissions.of("guest", "shop") == Permission(".*", ".*", ".*")
    assert again.broker.policies.count("shop") == 0
    again.close()


def test_nobody_opens_what_is_being_deleted() -> None:
    bed = Bed()
    vhosts.add(bed.broker, "shop")
    fill(bed, "shop", 20)
    vhosts.delete(bed.broker, "shop")
    peer = Peer(bed, "late", "127.0.0.1")
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    peer.say(0, start_ok())
    peer.one(m.ConnectionTune)
    peer.say(0, m.ConnectionTuneOk(10, 131_072, 0), m.ConnectionOpen("shop"))
    assert peer.one(m.ConnectionClose).reply_text == "NOT_ALLOWED - vhost shop not found"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/", "vhost '/' is in the configuration, which goes first"),
        ("none", "no vhost 'none'; there is: /"),
    ],
)
def test_what_cannot_be_deleted(name: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        vhosts.delete(Bed().broker, name)


@pytest.mark.parametrize(
    ("name", "words"),
    [("/", "is there already"), ("", "has 1 to 255 bytes"), ("x" * 256, "has 1 to 255 bytes")],
)
def test_what_cannot_be_added(name: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        vhosts.add(Bed().broker, name)


def test_the_virtual_host_of_the_event_stream_stays() -> None:
    bed = Bed(event_stream="flows")
    vhosts.add(bed.broker, "flows")
    with pytest.raises(OperatorError, match="has the stream of flow events"):
        vhosts.delete(bed.broker, "flows")


def test_an_import_passes_over_what_was_in_a_host_that_is_deleted_meanwhile() -> None:
    bed = Bed()
    vhosts.add(bed.broker, "shop")
    queues = [{"name": f"q{number}", "vhost": "shop", "durable": True} for number in range(3)]
    steps = importing(bed.broker, {"queues": queues}, "")
    while not bed.broker.queues_in("shop"):
        next(steps)
    vhosts.delete(bed.broker, "shop")
    bed.run()
    whole(steps)
    assert list(bed.broker.vhosts) == ["/"]


QUEUES = [{"name": f"q{number}", "vhost": "/"} for number in range(3)]


def test_one_that_is_made_while_it_is_imported_stays() -> None:
    """With all that is in it by then."""
    bed = Bed()
    steps = importing(bed.broker, {"vhosts": [{"name": "shop"}], "queues": QUEUES})
    for _ in range(3):
        next(steps)
    vhosts.add(bed.broker, "shop")
    made = bed.broker.vhosts["shop"]
    done = whole(steps)
    assert bed.broker.vhosts["shop"] is made
    assert done.notes == (
        "while it was imported: vhost 'shop' was made by another client; passed over",
    )
    assert (done.counts["vhosts"], done.counts["queues"]) == (0, 3)


@pytest.mark.parametrize("key", ["policies", "parameters", "permissions", "topic_permissions"])
def test_rules_of_one_that_goes_while_they_are_imported(key: str) -> None:
    """They are passed over with a note, and what comes behind them is done."""
    bed = Bed()
    vhosts.add(bed.broker, "shop")
    rows: dict[str, dict[str, object]] = {
        "policies": {"name": "short", "pattern": "", "definition": {"max-length": 3}},
        "parameters": {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 3}},
        "permissions": {"user": "guest", "configure": "", "write": "", "read": ""},
        "topic_permissions": {"user": "guest", "exchange": "e", "write": "", "read": ""},
    }
    steps = importing(bed.broker, {key: [{**rows[key], "vhost": "shop"}], "queues": QUEUES})
    for _ in range(3):
        next(steps)
    vhosts.delete(bed.broker, "shop")
    bed.run()
    done = whole(steps)
    assert done.notes == ("while it was imported: no vhost 'shop'; one of: /; passed over",)
    assert sum(done.counts.values()) == done.counts["queues"] == 3


def test_permissions_of_the_configuration_go_first(tmp_path: Path) -> None:
    users = (UserConfig("app", "pw"), UserConfig("all", "pw"))
    first = DurableBed(tmp_path / "db", users=users, vhosts=("/", "t"))
    first.broker.permissions.set("app", "/", Permission(".*", ".*", ".*"))
    first.close()
    row = PermissionConfig("app", "/", "", "^orders", "")
    bed = DurableBed(tmp_path / "db", users=users, vhosts=("/", "t"), permissions=(row,))
    permissions = bed.broker.permissions
    assert permissions.of("app", "/") == Permission("", "^orders", "")
    assert permissions.of("app", "t") is None
    assert permissions.of("all", "t") == Permission(".*", ".*", ".*")
    notes = "; ".join(bed.restored.notes)
    assert "permissions of user 'app' are as the configuration says" in notes
    with pytest.raises(OperatorError, match="are in the configuration, which goes first"):
        permissions.set("app", "t", Permission(".*", ".*", ".*"))
    with pytest.raises(OperatorError, match="are in the configuration, which goes first"):
        permissions.clear("app", "/")
    bed.close()


def test_permissions_of_the_configuration_name_what_is_in_it() -> None:
    row = PermissionConfig("nobody", "/", "", "", "")
    with pytest.raises(OperatorError, match="user 'nobody' in vhost '/': both must be in"):
        Bed(permissions=(row,))
