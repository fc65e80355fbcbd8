"""Definitions in and out: RabbitMQ's own files, a round trip, and faults that change nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.base.config import (
    EntryLimits,
    PermissionConfig,
    TopicPermissionConfig,
    UserConfig,
)
from penstock.base.errors import OperatorError
from penstock.base.limits import CATALOGUE_CHANGES, POLICIES_PER_VHOST
from penstock.base.policy import Policy
from penstock.broker.session.passwords import SHA256, hash_password
from penstock.broker.vhost.catalogue_rows import CatalogueChange, VhostRow
from penstock.protocol import methods as m
from penstock.protocol.integers import Timestamp
from penstock.protocol.sasl import Credentials
from penstock.protocol.values import Table
from tests.definitions import export_definitions, import_definitions
from tests.unit.broker.peer import Bed
from tests.unit.server.durable_bed import DurableBed, topology

FIXTURES = Path(__file__).parents[3] / "fixtures"
# JSON has no type of its own here: what is read is what is checked.
Json = dict[str, Any]


def fixture(name: str) -> Json:
    found: Json = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    return found


def exported(bed: Bed) -> Json:
    """What is exported, as JSON would bring it back, without what chance has in it."""
    found = json.loads(json.dumps(export_definitions(bed.broker, "1")[0]))
    for user in found["users"]:
        if user["name"] == "guest":
            user["password_hash"] = ""
    return dict(found)


def test_an_export_of_rabbitmq_3_10() -> None:
    """Written by its rabbitmqctl: pairs for objects, and a binding to an internal exchange that it
    left out."""
    bed = Bed()
    done = import_definitions(bed.broker, fixture("definitions-rabbitmq-3.10.json"))
    assert done.counts == {
        "vhosts": 1,
        "users": 1,
        "limits": 2,
        "policies": 2,
        "permissions": 1,
        "exchanges": 3,
        "queues": 4,
        "bindings": 4,
    }
    assert [note.partition(":")[0] for note in done.notes] == ["bindings[2]"]
    broker = bed.broker
    assert set(broker.vhosts["/"].queues) == {"temp", "orders.eu", "mail", "p"}
    queue_limits = broker.vhosts["/"].queues["orders.eu"].queue_limits
    assert queue_limits is not None
    # The operator policy is stricter than the queue's own 1000.
    assert (queue_limits.rules.max_length, queue_limits.rules.ttl_ms) == (500, 60_000)
    assert broker.access.check(Credentials("app", "secret"), "10.0.0.1") == ""
    assert broker.access.check(Credentials("app", "other"), "10.0.0.1") != ""
    alternate = broker.vhosts["/"].find_exchange("alt")
    assert alternate is not None and alternate.alternate == "audit" and alternate.auto_delete
    assert [(row.name, dict(row.limits)) for row in broker.limits.rows()] == [
        ("tenant", {"max-queues": 12}),
        ("app", {"max-connections": 4}),
    ]


def test_an_export_of_rabbitmq_4_1() -> None:
    """Written by hand after its documentation: what is not here is passed over and named."""
    bed = Bed()
    done = import_definitions(bed.broker, fixture("definitions-rabbitmq-4.1.json"))
    assert [note.partition(":")[0] for note in done.notes] == [
        "vhosts[1]",
        "parameters[2]",
        "global_parameters[2]",
        "exchanges[1]",
        "queues[3]",
    ]
    shop = bed.broker.vhosts["shop"]
    assert set(shop.queues) == {"c", "q", "s"} and shop.router.binding_count == 3
    types = {row["name"]: row["type"] for row in exported(bed)["queues"]}
    assert types == {"c": "classic", "q": "quorum", "s": "stream"}
    assert bed.broker.access.check(Credentials("shop", "test12"), "10.0.0.1") == ""
    queue_limits = shop.queues["c"].queue_limits
    assert queue_limits is not None and (
        queue_limits.rules.max_length,
        queue_limits.rules.ttl_ms,
    ) == (9, 1000)


@pytest.mark.parametrize("name", ["3.10", "4.1"])
def test_what_is_exported_can_be_imported_and_is_the_same(name: str) -> None:
    first, second = Bed(), Bed()
    import_definitions(first.broker, fixture(f"definitions-rabbitmq-{name}.json"))
    written = json.dumps(export_definitions(first.broker, "1")[0])
    out = exported(first)
    assert import_definitions(second.broker, json.loads(written)).notes == ()
    assert exported(second) == out
    again = import_definitions(second.broker, json.loads(written))
    assert [again.counts[key] for key in ("vhosts", "exchanges", "queues", "bindings")] == [0] * 4
    assert exported(second) == out


def test_an_import_is_kept(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "m")
    import_definitions(bed.broker, fixture("definitions-rabbitmq-3.10.json"))
    before, out = topology(bed.broker), exported(bed)
    bed.close()
    again = DurableBed(tmp_path / "m")
    assert topology(again.broker) == before and len(before["queues"]) == 3
    back = exported(again)
    for key in ("users", "vhosts", "parameters", "policies"):
        assert back[key] == out[key], key
    again.close()


def test_internal_and_transient_things_are_exported_and_exclusive_ones_are_not() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.ExchangeDeclare("inside", "fanout", internal=True), m.ExchangeDeclareOk)
    peer.call(1, m.QueueDeclare("mine", exclusive=True), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("ours"), m.QueueDeclareOk)
    for queue in ("mine", "ours"):
        peer.call(1, m.QueueBind(queue, "inside", "k"), m.QueueBindOk)
    out = exported(bed)
    assert [(row["name"], row["internal"]) for row in out["exchanges"]] == [("inside", True)]
    assert [(row["name"], row["durable"]) for row in out["queues"]] == [("ours", False)]
    assert [row["destination"] for row in out["bindings"]] == ["ours"]


def test_a_type_that_json_has_not_is_named() -> None:
    bed = Bed()
    peer = bed.connect()
    arguments: Table = {
        "when": Timestamp(5),
        "raw": [b"\xff"],
        "same": {"a": [1, "b", None, True, 1.5]},
    }
    peer.call(1, m.QueueDeclare("q", arguments=arguments), m.QueueDeclareOk)
    found, notes = export_definitions(bed.broker, "1")
    rows = found["queues"]
    assert isinstance(rows, list)
    assert rows[0]["arguments"] == {
        "when": 5,
        "raw": ["\ufffd"],
        "same": {"a": [1, "b", None, True, 1.5]},
    }
    assert notes == ["queue 'q': octets, timestamp written as JSON's nearest"]


def test_what_is_there_stays_as_it_is() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q", arguments={"x-max-length": 1}), m.QueueDeclareOk)
    peer.call(1, m.ExchangeDeclare("e", "fanout"), m.ExchangeDeclareOk)
    rows: Json = {
        "queues": [{"vhost": "/", "name": "q", "durable": True}],
        "exchanges": [{"vhost": "/", "name": "e", "type": "direct"}],
    }
    before = exported(bed)
    notes = import_definitions(bed.broker, rows).notes
    assert [note.partition(" is there")[0] for note in notes] == [
        "exchanges[0]: exchange 'e'",
        "queues[0]: queue 'q'",
    ]
    assert exported(bed) == before


def test_the_configuration_goes_first() -> None:
    policy = Policy("/", "p", "^a", {"max-length": 1})
    bed = Bed(
        users=(UserConfig("guest", "guest", True), UserConfig("app", "right")),
        policies=(policy,),
        user_limits=(EntryLimits("user", "app", {"max-channels": 3}),),
    )
    rows: Json = {
        "users": [
            {"name": "guest", "password_hash": hash_password("guest", b"salt")},
            {"name": "app", "password": "wrong", "tags": "a, b", "limits": {"max-channels": 9}},
        ],
        "policies": [{"vhost": "/", "name": "p", "pattern": "^b", "definition": {"max-length": 2}}],
    }
    before = exported(bed)
    notes = import_definitions(bed.broker, rows).notes
    assert [note.partition(":")[0] for note in notes] == ["users[1]"] * 3 + ["policies[0]"]
    after = exported(bed)
    for user in (*before["users"], *after["users"]):
        user["password_hash"] = ""
    assert after == before
    assert bed.broker.access.check(Credentials("app", "right"), "10.0.0.1") == ""


def test_rights_of_the_configuration_stay_and_stop_no_import() -> None:
    bed = Bed(
        users=(UserConfig("guest", "guest", True), UserConfig("app", "right")),
        permissions=(PermissionConfig("app", "/", "^a", "^a", "^a"),),
        topic_permissions=(TopicPermissionConfig("app", "/", "amq.topic", "^a", "^a"),),
    )
    same = exported(bed)
    assert not import_definitions(bed.broker, {**same, "users": []}).notes
    topic = {"user": "app", "vhost": "/", "exchange": "amq.topic", "write": "", "read": ""}
    rows: Json = {
        "permissions": [{"user": "app", "vhost": "/", "configure": "", "write": "", "read": ""}],
        "topic_permissions": [topic],
        "queues": [{"vhost": "/", "name": "q"}],
    }
    notes = import_definitions(bed.broker, rows).notes
    assert [note.partition(":")[0] for note in notes] == ["permissions[0]", "topic_permissions[0]"]
    assert set(bed.broker.vhosts["/"].queues) == {"q"}
    for key in ("permissions", "topic_permissions"):
        assert exported(bed)[key] == same[key]


@pytest.mark.parametrize("is_operator", [False, True])
def test_more_policies_than_there_may_be_are_refused_as_a_whole(is_operator: bool) -> None:
    bed = Bed()
    rule: Json = {"pattern": "^a", "definition": {"max-length": 1}}
    rows: list[Json] = [
        {"vhost": "/", "name": f"p{number}"}
        | ({"component": "operator_policy", "value": rule} if is_operator else rule)
        for number in range(POLICIES_PER_VHOST.default + 1)
    ]
    key = "parameters" if is_operator else "policies"
    definitions: Json = {"vhosts": [{"name": "shop"}], key: rows}
    before = exported(bed)
    with pytest.raises(OperatorError, match=r"policies: vhost '/' has 0 .*its limit is 1000"):
        import_definitions(bed.broker, definitions)
    assert exported(bed) == before
    import_definitions(bed.broker, {key: rows[1:]})
    import_definitions(bed.broker, {key: rows[1:]})
    with pytest.raises(OperatorError, match=r"has 1000 .* and would get 1 more"):
        import_definitions(bed.broker, definitions)


def test_an_export_of_one_virtual_host_needs_to_be_told_which() -> None:
    rows: Json = {"queues": [{"name": "q"}], "exchanges": [{"name": "e", "type": "topic"}]}
    bed = Bed(vhosts=("/", "other"))
    with pytest.raises(OperatorError, match=r"exchanges\[0\]: names no vhost.*--vhost"):
        import_definitions(bed.broker, rows)
    import_definitions(bed.broker, rows, "other")
    assert set(bed.broker.vhosts["other"].queues) == {"q"} and not bed.broker.vhosts["/"].queues


def changed(change: Callable[[Json], None]) -> Json:
    rows = fixture("definitions-rabbitmq-4.1.json")
    change(rows)
    return rows


FAULTS: list[tuple[Callable[[Json], object], str]] = [
    (lambda d: d.update(queues={}), r"queues: must be a list"),
    (lambda d: d["queues"].append(3), r"queues\[4\]: must be an object, not 3"),
    (lambda d: d["queues"][0].pop("name"), r"queues\[0\]\.name: is missing"),
    (lambda d: d["queues"][0].update(name="x" * 256), r"queues\[0\]\.name: is 256 bytes"),
    (lambda d: d["queues"][0].update(name="ü" * 128), r"queues\[0\]\.name: is 256 bytes"),
    (lambda d: d["queues"][0].update(name=""), r"queues\[0\]\.name: is empty"),
    (lambda d: d["queues"][0].update(name="\ud800"), r"queues\[0\]\.name: is not valid"),
    (lambda d: d["queues"][0].update(durable=1), r"queues\[0\]\.durable: must be true or"),
    (lambda d: d["queues"][0].update(vhost="none"), r"queues\[0\]\.vhost: there is no vhost"),
    (lambda d: d["queues"][0].update(arguments=[1]), r"queues\[0\]\.arguments: must be an obj"),
    (
        lambda d: d["queues"][0].update(arguments={"x-max-length": -1}),
        r"queues\[0\]: invalid arg 'x-max-length' for queue 'c'",
    ),
    (
        lambda d: d["queues"][0].update(arguments={"n": 1 << 63}),
        r"queues\[0\]\.arguments: .*64 bits",
    ),
    (
        lambda d: d["queues"][0].update(arguments={}, type="quorum", auto_delete=True),
        r"queues\[0\]: invalid property 'auto-delete' for queue 'c'",
    ),
    (lambda d: d["exchanges"][0].update(type=7), r"exchanges\[0\]\.type: must be a string"),
    (
        lambda d: d["exchanges"][0].update(arguments={"alternate-exchange": 5}),
        r"exchanges\[0\]: invalid type 'byte'",
    ),
    (
        lambda d: d["bindings"][0].update(destination_type="topic"),
        r"bindings\[0\]\.destination_type: must be queue or exchange",
    ),
    (
        lambda d: d["bindings"][0].update(source="amq.headers", arguments={"x-match": 1}),
        r"bindings\[0\]: Invalid x-match",
    ),
    (lambda d: d["users"][0].update(password_hash="!"), r"users\[0\]: password_hash is not"),
    (lambda d: d["users"][0].update(hashing_algorithm="x"), r"users\[0\]: .*'x' is unknown"),
    (lambda d: d["users"][0].pop("password_hash"), r"users\[0\]\.password_hash: is missing"),
    (lambda d: d["users"][0].update(tags=[1]), r"users\[0\]\.tags: must be"),
    (lambda d: d["users"][0].update(limits={"max-queues": 1}), r"users\[0\]: "),
    (lambda d: d["policies"][0].update(pattern="("), r"policies\[0\]: "),
    (lambda d: d["policies"][0].update(definition={"max-length": "x"}), r"policies\[0\]: "),
    (lambda d: d["policies"][0].update(definition=7), r"policies\[0\]\.definition: must be an"),
    (lambda d: d["parameters"][1]["value"].update(priority="x"), r"parameters\[1\]: "),
    (lambda d: d["parameters"][0]["value"].update(x=1), r"parameters\[0\]\.value: "),
    (
        lambda d: d["parameters"][0]["value"].update({"max-queues": 0}),
        r"queues: vhost 'shop' has 0 queues and would get 3 more; its limit is 0",
    ),
]


@pytest.mark.parametrize(("change", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_a_fault_is_named_by_its_place_and_nothing_changes(
    change: Callable[[Json], None], said: str
) -> None:
    bed = Bed()
    before = exported(bed)
    with pytest.raises(OperatorError, match=f"^definitions: {said}.*nothing was imported$"):
        import_definitions(bed.broker, changed(change))
    assert exported(bed) == before


def test_more_than_the_disk_has_room_for_is_refused_as_a_whole(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "m")
    before = exported(bed)
    bed.catalogue.waiting.extend(
        [CatalogueChange(True, VhostRow("x"))] * (CATALOGUE_CHANGES.default - 3)
    )
    with pytest.raises(OperatorError, match=r"changes at once, and the disk has room for 3"):
        import_definitions(bed.broker, fixture("definitions-rabbitmq-3.10.json"))
    assert exported(bed) == before
    bed.crash()


def test_a_plain_password_is_hashed_at_once() -> None:
    bed = Bed()
    import_definitions(bed.broker, {"users": [{"name": "u", "password": "p", "tags": ""}]})
    user = bed.broker.access.users["u"]
    assert user.password == "" and user.hashing == SHA256 and user.tags == ()
    assert bed.broker.access.check(Credentials("u", "p"), "10.0.0.1") == ""


def test_guest_comes_in_from_this_machine_only() -> None:
    bed = Bed(users=(UserConfig("root", "root"),))
    import_definitions(bed.broker, {"users": [{"name": "guest", "password": "guest"}]})
    assert bed.broker.access.check(Credentials("guest", "guest"), "127.0.0.1") == ""
    assert "localhost" in bed.broker.access.check(Credentials("guest", "guest"), "10.0.0.1")


def test_tags_of_users_are_kept_and_the_strange_ones_named() -> None:
    bed = Bed()
    tags = ["administrator", "impersonator", "team-a"]
    rows = [{"name": "app", "password": "p", "tags": tags}]
    notes = import_definitions(bed.broker, {"users": rows}).notes
    assert len(notes) == 1 and notes[0].startswith("users[0]: tags of user 'app'")
    assert notes[0].endswith(": team-a")
    found, _ = export_definitions(bed.broker, "1")
    second = Bed()
    import_definitions(second.broker, json.loads(json.dumps(found)))
    assert second.broker.access.users["app"].tags == tuple(tags)


def test_tags_that_a_configured_user_does_not_get_are_named() -> None:
    bed = Bed()
    rows = [{"name": "guest", "password": "guest", "tags": "administrator,impersonator"}]
    notes = import_definitions(bed.broker, {"users": rows}).notes
    assert len(notes) == 1 and notes[0].endswith("without the tags impersonator")
    assert bed.broker.access.users["guest"].tags == ("administrator",)
