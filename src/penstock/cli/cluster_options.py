"""The options of `penstock serve` that make a node of a cluster, and that node until Ctrl-C."""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import penstock
from penstock.base.config import Config
from penstock.base.errors import OperatorError

if TYPE_CHECKING:
    from penstock.server.cluster.member import MemberNode
    from penstock.server.cluster.settings import MemberSettings
    from penstock.server.shards.parent import ShardParent

INSTALL: Final = "pip install 'penstock-mq[cluster]'"
_OPTIONS: Final = (
    ("coordinator", "URLS", "etcd of a cluster: http://e1:2379,http://e2:2379 makes this a node."),
    ("name", "NAME", "This node's own name in the cluster."),
    ("cluster", "NAME", "Name of the cluster.  [default: penstock]"),
    ("cluster_listen", "HOST:PORT", "Where the other nodes come in."),
    ("advertise", "HOST:PORT", "How they reach it, if otherwise."),
    ("cluster_cert", "FILE", "PEM file with this node's certificate, for the other nodes."),
    ("cluster_key", "FILE", "PEM file with its key."),
    ("cluster_ca", "FILE", "PEM file with the cluster's authority."),
    ("etcd_ca", "FILE", "PEM file with the authority of etcd, for https."),
    ("etcd_cert", "FILE", "PEM file with a certificate that etcd asks for."),
    ("etcd_key", "FILE", "PEM file with its key."),
)
_KEYS: Final = {
    "coordinator": "cluster_coordinator",
    "name": "cluster_node",
    "cluster": "cluster_name",
    "advertise": "cluster_advertise",
    "etcd_ca": "cluster_etcd_ca",
    "etcd_cert": "cluster_etcd_cert",
    "etcd_key": "cluster_etcd_key",
}
"""Keys of the configuration, where they are not called as the option is."""


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `command` these options, as one parameter `in_cluster`: what is to be replaced in the
    configuration."""

    @wraps(command)
    def asked(*args: object, cluster_plain: bool, **given: Any) -> None:
        found: dict[str, object] = {}
        for name, _, _ in _OPTIONS:
            value = given.pop(name)
            if value is not None:
                found[_KEYS.get(name, name)] = value
        if cluster_plain:
            found["cluster_plain"] = True
        command(*args, in_cluster=found, **given)

    asked = click.option(
        "--cluster-plain", is_flag=True, help="Nodes talk without TLS; at 127.0.0.1 only."
    )(asked)
    for name, metavar, text in reversed(_OPTIONS):
        flag = f"--{name.replace('_', '-')}"
        asked = click.option(flag, name, default=None, metavar=metavar, help=text)(asked)
    return asked


def ran_as_member(
    config: Config, in_cluster: dict[str, object], written: Callable[[], Config]
) -> bool:
    """Run a node of a cluster until Ctrl-C, and return True, where one is asked for. written: the
    settings as they are written now. Raises: OperatorError; also where a single broker is, and the
    directory is a node's."""
    if not in_cluster and not config.cluster_coordinator:
        from penstock.server.cluster.member_files import single_fault

        wrong = single_fault(Path(config.data_dir)) if config.data_dir else ""
        if wrong:
            raise OperatorError(wrong)
        return False
    if config.cores == 1:
        refuse_workers(config)
    if find_spec("etcd3gw") is None:
        raise OperatorError(f"the package etcd3gw cannot be found, which talks to etcd: {INSTALL}")

    def reread() -> Config:
        return with_cluster(written(), in_cluster)

    config = with_cluster(config, in_cluster)
    if config.cores > 1:
        from penstock.server.shards.parent import serve_shards

        asyncio.run(serve_shards(config, _announce_shards, reread))
    else:
        from penstock.server.cluster.run_member import serve_member

        asyncio.run(serve_member(config, _announce, reread))
    click.echo(f"stopped; kept in {config.data_dir}")
    return True


def refuse_workers(config: Config) -> None:
    """Raises: OperatorError where other workers than the first have what would be missing."""
    from penstock.server.workers.placement import single_fault

    wrong = single_fault(config.data_dir) if config.data_dir else ""
    if wrong:
        raise OperatorError(wrong)


def with_cluster(config: Config, in_cluster: dict[str, object]) -> Config:
    """What the command line says, in place of what the configuration does."""
    return replace(config, **in_cluster)  # type: ignore[arg-type]  # keys and types are the table's


def _announce_shards(parent: "ShardParent") -> None:
    settings = parent.settings
    _say_node(settings)
    click.echo(f" ✔ clients  {parent.ports.shown()}   passed on to whoever leads their shard")
    addresses = ", ".join(
        f"{settings.host}:{settings.of_shard(one.worker).port}" for one in parent.workers
    )
    click.echo(f" ✔ nodes    {addresses} ({_safe(settings)})")
    click.echo(f" ✔ etcd     {', '.join(settings.endpoints)}")
    click.echo(f" ✔ data     {parent.config.data_dir}")
    named = parent.config.control_socket
    where = f"--control {named}" if named else f"--port {parent.ports.port}"
    click.echo(f" ✔ control  penstock cluster status {where}")
    for one in parent.workers:
        click.echo(f" ✔ worker {one.worker} pid {one.pid}   of shard {one.worker}")
    sys.stdout.flush()


def _safe(settings: "MemberSettings") -> str:
    return "TLS 1.3" if settings.tls is not None else "without TLS"


def _say_node(settings: "MemberSettings") -> None:
    python = ".".join(str(part) for part in sys.version_info[:3])
    click.echo(
        f"penstock {penstock.__version__} · node '{settings.name}' of cluster "
        f"'{settings.cluster}' · Python {python} · pid {os.getpid()}"
    )


def _announce(node: "MemberNode") -> None:
    settings = node.settings
    port = node.sockets.port
    _say_node(settings)
    click.echo(f" ✔ clients  {node.sockets.shown()}   here while it leads, else passed on")
    click.echo(f" ✔ nodes    {node.address} ({_safe(settings)})")
    click.echo(f" ✔ etcd     {', '.join(settings.endpoints)}")
    click.echo(f" ✔ data     {node.disk.path}")
    named = node.config.control_socket
    where = f"--control {named}" if named else f"--port {port}"
    click.echo(f" ✔ control  penstock cluster status {where}")
    sys.stdout.flush()
