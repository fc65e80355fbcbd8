"""Members that may not talk to each other are told why, in one sentence that says what to do."""

from dataclasses import replace

import msgspec
import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.replication.config import LED, ClusterConfig
from penstock.server.cluster.admission import (
    Self,
    clock_fault,
    directory_fault,
    hello_fault,
    welcome_fault,
)
from penstock.server.cluster.link_frames import FORWARD, HANDOVER, PROTOCOL, Hello, Welcome
from penstock.server.cluster.settings import member_settings

ME = Self("penstock", "id-1", "a", "identity-a", "boot")
GOOD = Hello(PROTOCOL, "penstock", "id-1", "b", "identity-b", "a", "boot-b", 1_000_000)


def refused(certified: str | None = None, known: str | None = None, **changed: object) -> str:
    """Why a hello that is good but for `changed` is refused."""
    hello = msgspec.structs.replace(GOOD, **changed)
    identities = {} if known is None else {"b": known}
    return hello_fault(hello, ME, identities, certified, 1_000_000)


def test_one_that_belongs_here_comes_in() -> None:
    assert refused() == ""
    assert refused(certified="b", known="identity-b") == ""
    assert refused(protocol=PROTOCOL + 1) == ""
    assert refused(cluster_id="") == "", "it has not joined yet"
    assert refused(clock_ms=1_000_000 + 59_000) == ""


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"protocol": PROTOCOL + 2}, "upgrade one release at a time"),
        ({"cluster": "other"}, "belongs to cluster 'other'"),
        ({"cluster_id": "id-2"}, "another cluster that is called"),
        ({"to": "c"}, "looks for node 'c'"),
        ({"certified": "c"}, "a certificate of 'c'"),
        ({"name": "a"}, "choose another --name"),
        ({"known": "identity-old"}, "penstock cluster forget b"),
        ({"clock_ms": 1_000_000 + 3_600_000}, "3600 s ahead of"),
        ({"clock_ms": 1_000_000 - 3_600_000}, "3600 s behind"),
    ],
)
def test_one_that_does_not_is_refused_in_a_sentence(changed: dict[str, object], says: str) -> None:
    said = refused(**changed)  # type: ignore[arg-type]  # parts of a hello, or what is known
    assert says in said and "\n" not in said


def test_a_clock_may_be_a_little_apart() -> None:
    assert clock_fault("node 'b'", 0, "a", 60_000) == ""
    assert "60 s are allowed" in clock_fault("node 'b'", 0, "a", 60_001)


def test_who_answers_has_to_be_the_one_that_was_dialled() -> None:
    good = Welcome(PROTOCOL, "b", "identity-b", "boot-b")
    assert welcome_fault(good, "b", "b") == "" and welcome_fault(good, "b", None) == ""
    assert "two nodes advertise" in welcome_fault(good, "c", None)
    assert "certificate of 'x'" in welcome_fault(good, "b", "x")
    assert "version 9" in welcome_fault(msgspec.structs.replace(good, protocol=9), "b", None)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"cluster_node": ""}, "--name"),
        ({"cluster_node": "../x"}, "--name"),
        ({"cluster_name": "a b"}, "--cluster"),
        ({"data_dir": ""}, "--memory"),
        ({"port": -1, "tls_port": -1}, "--port"),
        ({"cluster_listen": "here"}, "HOST:PORT"),
        ({"cluster_listen": "0.0.0.0:1", "cluster_plain": False}, "--advertise"),
        ({"cluster_advertise": "there"}, "--advertise 'there'"),
        ({"cluster_plain": False}, "penstock cluster certificates"),
        ({"cluster_listen": "10.0.0.1:1"}, "127.0.0.1 only"),
        ({"cluster_cert": "x.pem"}, "go together"),
        ({"cluster_cert": "x.pem", "cluster_key": "x", "cluster_ca": "y"}, "is not there"),
        ({"cluster_coordinator": ""}, "--coordinator"),
    ],
)
def test_settings_that_make_no_node_are_refused(changed: dict[str, object], says: str) -> None:
    given: dict[str, object] = {
        "data_dir": "data",
        "cluster_node": "a",
        "cluster_listen": "127.0.0.1:0",
        "cluster_plain": True,
        "cluster_coordinator": "http://127.0.0.1:2379",
    }
    member_settings(Config(**given))  # type: ignore[arg-type]  # fields of Config
    with pytest.raises(OperatorError, match=says):
        member_settings(Config(**(given | changed)))  # type: ignore[arg-type]  # as above


def test_another_process_of_this_node_brings_clients_and_nothing_else() -> None:
    own = {"name": "a", "identity": "identity-a"}
    assert refused(**own, purpose=FORWARD) == ""
    assert refused(**own, purpose=HANDOVER) == ""
    assert "dials itself" in refused(**own)
    assert "dials itself" in refused(name="a", purpose=FORWARD)


def test_each_shard_has_a_port_keys_and_a_name_of_its_own() -> None:
    config = Config(
        data_dir="data",
        cluster_coordinator="http://e1:2379",
        cluster_node="a",
        cluster_listen="127.0.0.1:25672",
        cluster_advertise="[::1]:65535",
        cluster_plain=True,
    )
    first = member_settings(config)
    assert first.of_shard(0) == first
    assert (first.prefix, first.group) == ("/penstock/penstock/", "penstock")
    plain = member_settings(replace(config, cluster_advertise="10.0.0.1:700")).of_shard(2)
    assert (plain.port, plain.advertised) == (25674, "10.0.0.1:702")
    assert (plain.prefix, plain.group) == ("/penstock/penstock/shards/2/", "penstock/2")
    with pytest.raises(OperatorError, match=r"port 65536, and 65535 is the last"):
        first.of_shard(1)
    free = member_settings(replace(config, cluster_listen="127.0.0.1:0", cluster_advertise=""))
    assert (free.of_shard(1).port, free.of_shard(1).advertised) == (0, "")


def test_a_directory_is_the_one_that_etcd_knows_under_its_name() -> None:
    config = ClusterConfig("id-1", 3, LED, "b", {"b": "identity-b", "a": "identity-a"})
    known = {"a": "identity-a", "b": "identity-b"}
    assert directory_fault(ME, {}, None) == directory_fault(ME, known, config) == ""
    emptied = replace(ME, cluster_id="", identity="identity-e")
    assert "run `penstock cluster forget a` on another" in directory_fault(emptied, known, config)
    forgotten = msgspec.structs.replace(config, forgotten={"identity-a": "a"})
    assert directory_fault(emptied, known, forgotten) == "", "its name is free"
    for name in ("a", "d"):
        copied = replace(ME, name=name, identity="identity-b")
        assert "is that of node 'b'" in directory_fault(copied, {"b": "identity-b"}, config)
        assert "is that of node 'b'" in directory_fault(copied, {}, config), "b has no row"
    # Another cluster's: what it says of itself is refused, and nobody is to be forgotten here.
    elsewhere = replace(ME, cluster_id="id-2", identity="identity-e")
    assert directory_fault(elsewhere, known, config) == ""
