"""Which address a driver gives the executors of a cluster, and what it says without one."""

import socket
from collections.abc import Iterator

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.session.session import (
    OWN_NAMES,
    address_towards,
    is_cluster,
    network_settings,
    was_interrupted,
)


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody listens, on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OWN_NAMES:
        monkeypatch.delenv(name, raising=False)


def test_only_urls_are_clusters() -> None:
    assert [is_cluster(one) for one in ("", "local", "local[*]", "local-cluster[2,1,1024]")] == (
        [False] * 4
    )
    assert is_cluster("spark://host:7077") and is_cluster("yarn") and is_cluster("k8s://host")


def test_the_driver_listens_where_the_master_is_reached_from(port: int) -> None:
    assert network_settings(f"spark://127.0.0.1:{port}") == {"spark.driver.host": "127.0.0.1"}
    assert network_settings("yarn") == {}


def test_the_second_master_is_asked_when_the_first_is_away(port: int) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        away = unheard.getsockname()[1]
        hosts = f"127.0.0.1:{away},127.0.0.1:{port}"
        assert address_towards(f"spark://{hosts}", hosts) == "127.0.0.1"
        with pytest.raises(OperatorError, match=r"no master answers \(127.0.0.1:\d+: Connection"):
            network_settings(f"spark://127.0.0.1:{away}")


def test_a_name_that_no_host_can_have_is_said_so() -> None:
    with pytest.raises(OperatorError, match=r"no master answers \(a\.\.b:7077: no name of a host"):
        network_settings("spark://a..b:7077")


def test_what_the_environment_says_wins(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    assert network_settings(f"spark://127.0.0.1:{port}") == {}


@pytest.mark.parametrize("hosts", ["host", "host:", "host:70770", "h:" + "7" * 5000])
def test_an_address_that_is_none_is_refused(hosts: str) -> None:
    with pytest.raises(OperatorError, match="is not HOST:PORT"):
        network_settings(f"spark://{hosts}")


def test_an_address_of_version_six_has_brackets() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no loopback of version 6")
    with server:
        hosts = f"[::1]:{server.getsockname()[1]}"
        assert address_towards(f"spark://{hosts}", hosts) == "[::1]"


def raised(kind: type[BaseException], is_named: bool) -> BaseException:
    """As PySpark raises: an error while another one is handled, and one more because of that."""
    try:
        try:
            try:
                raise kind
            except BaseException as first:
                if is_named:
                    raise RuntimeError("Job 48 cancelled") from first
                raise RuntimeError("Job 48 cancelled")  # noqa: B904  # as PySpark does
        finally:
            raise OSError("the JVM is gone")  # as closing does then
    except OSError as last:
        return last


def test_an_error_in_the_wake_of_an_interrupt_is_one() -> None:
    assert was_interrupted(KeyboardInterrupt())
    assert was_interrupted(raised(KeyboardInterrupt, is_named=True))
    assert was_interrupted(raised(KeyboardInterrupt, is_named=False))


def test_other_errors_are_not() -> None:
    assert not was_interrupted(None)
    assert not was_interrupted(raised(ValueError, is_named=True))
    loop = OSError()
    loop.__context__ = RuntimeError()
    loop.__context__.__context__ = loop
    assert not was_interrupted(loop)
