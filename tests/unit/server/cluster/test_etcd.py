"""etcd as members use it: versions, addresses, and what a real one keeps."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from penstock.base.errors import OperatorError
from penstock.demo.cluster_rig import ClusterRig
from penstock.server.cluster.coordinator import (
    CoordinatorEvents,
    CoordinatorThread,
    CoordinatorView,
    view_of,
)
from penstock.server.cluster.etcd import (
    EtcdFault,
    EtcdStore,
    Stored,
    _text,
    parse_endpoints,
    version_fault,
)
from tests.conformance.live import free_port
from tests.patience import PATIENCE_S


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


def test_a_name_that_is_no_text_is_passed_over(store: EtcdStore) -> None:
    store.put("members/known", b"x")
    odd = _text(store.prefix.encode() + b"members/\xff\xfe")
    store._post("/kv/put", {"key": odd, "value": _text(b"y")})
    found = store.read()
    assert found["members/known"].value == b"x"
    store._post("/kv/deleterange", {"key": odd})


class OddEtcd(BaseHTTPRequestHandler):
    """Answers what no etcd answers, until it is well."""

    answers: ClassVar[dict[str, object]] = {}

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        data = json.dumps(self.answers[self.path.removeprefix("/v3")]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


class Heard(CoordinatorEvents):
    def __init__(self) -> None:
        self.views = 0
        self.swaps: list[bool | None] = []
        self.refusals: list[OperatorError] = []
        self.reaches: list[tuple[bool, str]] = []

    def seen(self, view: CoordinatorView) -> None:
        self.views += 1

    def swapped(self, number: int, is_done: bool | None) -> None:
        self.swaps.append(is_done)

    def changed(self) -> None:
        pass

    def reached(self, is_reachable: bool, words: str) -> None:
        self.reaches.append((is_reachable, words))

    def refused(self, error: OperatorError) -> None:
        self.refusals.append(error)


GOOD: dict[str, object] = {
    "/maintenance/status": {"version": "3.5.21"},
    "/kv/range": {"kvs": []},
    "/kv/txn": {"succeeded": True},
    "/lease/grant": {"ID": "7"},
    "/lease/keepalive": {"result": {"TTL": "10"}},
    "/kv/put": {},
}


@pytest.mark.parametrize(
    ("path", "odd"),
    [
        ("/kv/range", []),
        ("/kv/range", {"kvs": [{"value": "eA=="}]}),
        ("/kv/range", {"kvs": [{"key": "a", "mod_revision": "1"}]}),
        ("/kv/txn", "yes"),
        ("/lease/grant", {"TTL": "10"}),
        ("/maintenance/status", {"version": "3.5.1"}),
    ],
)
def test_whatever_it_answers_it_is_asked_again(path: str, odd: object) -> None:
    """One that is restored, upgraded, or behind a gateway that is not well."""

    async def scenario() -> None:
        OddEtcd.answers = {**GOOD, path: odd}
        server = ThreadingHTTPServer(("127.0.0.1", 0), OddEtcd)
        Thread(target=server.serve_forever, daemon=True).start()
        heard = Heard()
        store = EtcdStore([f"http://127.0.0.1:{server.server_port}"], "/penstock/odd/")
        thread = CoordinatorThread(store, "a", "boot", heard)
        thread.start()
        thread.live()
        thread.swap(1, 0, b"config")
        await asyncio.sleep(0.7)
        views = heard.views
        # It was not asked all the time.
        assert len(heard.refusals) < 10 and thread.thread.is_alive()
        OddEtcd.answers = GOOD
        async with asyncio.timeout(PATIENCE_S):
            # Who is reachable again is told behind what it has answered.
            while heard.views <= views or not heard.swaps or not heard.reaches[-1][0]:
                await asyncio.sleep(0.02)
        assert heard.swaps == ([True] if path in ("/kv/range", "/lease/grant") else [None])
        assert heard.reaches[-1] == (True, "")
        thread.close(2.0)
        server.shutdown()
        server.server_close()

    asyncio.run(scenario())
