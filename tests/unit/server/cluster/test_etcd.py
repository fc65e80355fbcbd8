"""etcd as members use it: versions, addresses, and what a real one keeps."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.demo.cluster_rig import ClusterRig
from penstock.server.cluster.coordinator import CoordinatorView, view_of
from penstock.server.cluster.etcd import (
    EtcdFault,
    EtcdStore,
    Stored,
    parse_endpoints,
    version_fault,
)
from tests.conformance.live import free_port


@pytest.mark.parametrize("version", ["3.4.20", "3.4.23", "3.5.13", "3.6.0", "4.0.0"])
def test_versions_that_are_used(version: str) -> None:
    assert version_fault(version) == ""


@pytest.mark.parametrize(
    "version", ["3.3.27", "3.4.19", "3.5.0", "3.5.1", "3.5.12", "2.3.8", "", "three"]
)
def test_versions_that_are_refused_in_a_sentence(version: str) -> None:
    said = version_fault(version)
    assert "use 3.4.20" in said and "\n" not in said


def test_addresses() -> None:
    assert parse_endpoints("http://e1:2379,e2:2380/") == ["http://e1:2379", "http://e2:2380"]
    assert parse_endpoints("https://e1,e2") == ["https://e1:2379", "https://e2:2379"]
    assert parse_endpoints("http://[::1]:99") == ["http://[::1]:99"]


@pytest.mark.parametrize("text", ["", " , ", "ftp://e1:1", "http://", "e1:port", "http://e1/x"])
def test_what_is_no_address_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(OperatorError, match=r"http://HOST:2379"):
        parse_endpoints(text)


def test_a_view_is_made_of_keys_and_passes_over_strange_ones() -> None:
    found = {
        "config": Stored(b"c", 5),
        "members/a": Stored(b"m", 1),
        "live/a": Stored(b"boot", 2),
        "promises/7/a": Stored(b"p", 3),
        "promises/x/a": Stored(b"p", 3),
        "suspicions/7/b": Stored(b"s", 4),
        "of/a/newer/version": Stored(b"?", 6),
    }
    assert view_of(found) == CoordinatorView(
        Stored(b"c", 5), {"a": b"m"}, {"a": b"boot"}, {(7, "a"): b"p"}, {(7, "b"): b"s"}
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdStore]:
    try:
        rig = ClusterRig(tmp_path_factory.mktemp("etcd"), names=(), port=free_port)
    except OperatorError as error:
        pytest.skip(str(error))
    rig.start_etcd()
    made = EtcdStore(["http://127.0.0.1:1", rig.endpoint], "/penstock/test/")
    yield made
    made.close()
    rig.close()


def test_a_swap_takes_the_place_of_what_was_seen_and_of_nothing_else(store: EtcdStore) -> None:
    assert store.swap("config", 0, b"one")
    assert not store.swap("config", 0, b"two")
    seen = store.read()["config"]
    assert seen.value == b"one"
    assert store.swap("config", seen.revision, b"three")
    assert not store.swap("config", seen.revision, b"four")
    assert store.read()["config"].value == b"three"


def test_a_key_goes_with_its_lease(store: EtcdStore) -> None:
    assert not store.renew()
    store.grant(10)
    store.put("live/a", b"x", is_leased=True)
    assert store.renew() and "live/a" in store.read()
    store.revoke()
    assert not store.renew() and "live/a" not in store.read()


def test_names_below_another_prefix_are_not_seen(store: EtcdStore) -> None:
    other = EtcdStore(store.endpoints, "/penstock/test2/")
    other.put("config", b"theirs")
    assert store.read("promises/") == {}
    assert other.read() == {"config": Stored(b"theirs", other.read()["config"].revision)}
    other.delete("config")
    assert other.read() == {}
    other.close()


def test_an_etcd_that_is_not_there_is_a_fault_in_one_line() -> None:
    gone = EtcdStore(["http://127.0.0.1:1"], "/penstock/test/")
    with pytest.raises(EtcdFault) as raised:
        gone.read()
    assert "127.0.0.1:1" in str(raised.value) and "\n" not in str(raised.value)
    gone.close()


def test_something_else_at_the_address_is_a_fault_too(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    port = free_port()
    with subprocess.Popen(
        ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        store = EtcdStore([f"http://127.0.0.1:{port}"], "/penstock/test/")
        with pytest.raises(EtcdFault):
            store.read()
        store.close()
        server.kill()
