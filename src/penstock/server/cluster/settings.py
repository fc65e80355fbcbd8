"""What a member is told at its start, checked: names, addresses, etcd, certificates."""

import re
from dataclasses import dataclass, replace
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.server.cluster.etcd import EtcdFiles, parse_endpoints
from penstock.server.cluster.link_io import split_address
from penstock.server.cluster.link_tls import LinkTls, check_own, load_tls
from penstock.server.cluster.links import check_plain

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
SHARDS: Final = "shards/"
PORT_MAX: Final = 65_535
_ANYWHERE: Final = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """cluster, name: of the cluster and of this node; host, port: where peers come in, 0 for any
    free port; advertised: what they are told instead, "" for the same; shard: of this member, where
    a node has several; its port is that of the first one, and so many more."""

    cluster: str
    name: str
    host: str
    port: int
    advertised: str
    endpoints: list[str]
    etcd_files: EtcdFiles
    tls: LinkTls | None
    shard: int = 0

    @property
    def prefix(self) -> str:
        """Of this cluster's keys in etcd, or of this shard's."""
        whole = f"/penstock/{self.cluster}/"
        return f"{whole}{SHARDS}{self.shard}/" if self.shard else whole

    @property
    def group(self) -> str:
        """What the members of one log have in common: the cluster's name, or `NAME/1`."""
        return f"{self.cluster}/{self.shard}" if self.shard else self.cluster

    def of_shard(self, shard: int) -> "MemberSettings":
        """Those of another member of this node. Raises: OperatorError for a port beyond all."""
        return replace(
            self,
            port=_port_of(self.port, shard),
            advertised=_address_of(self.advertised, shard),
            shard=shard,
        )


def _port_of(port: int, shard: int) -> int:
    """Raises: OperatorError."""
    found = port + shard if port else 0
    if found > PORT_MAX:
        raise OperatorError(
            f"worker {shard} would listen for other nodes on port {found}, and {PORT_MAX} is the "
            "last: each has the port of --cluster-listen and so many more"
        )
    return found


def _address_of(address: str, shard: int) -> str:
    """Raises: OperatorError."""
    if not address:
        return ""
    host, _, port = address.rpartition(":")
    return f"{host}:{_port_of(int(port), shard)}"


def member_settings(config: Config) -> MemberSettings:
    """Raises: OperatorError, naming the option and the fix."""
    for option, text in (("--name", config.cluster_node), ("--cluster", config.cluster_name)):
        if _NAME.fullmatch(text) is None:
            raise OperatorError(
                f"{option} '{text}' is no name: give each node of a cluster its own {option}, of "
                "letters, digits and . _ -, 63 of them at most"
            )
    if config.data_dir == "":
        raise OperatorError(
            "a node of a cluster keeps its data on disk: leave --memory away, and give --data"
        )
    if config.port < 0 and config.tls_port < 0:
        raise OperatorError("port = -1 and no TLS: no client could connect; give --port")
    try:
        host, port = split_address(config.cluster_listen)
    except ValueError:
        raise OperatorError(
            f"--cluster-listen '{config.cluster_listen}' is no address; write HOST:PORT, for "
            "example 10.0.0.1:25672"
        ) from None
    advertised = config.cluster_advertise
    if advertised:
        try:
            split_address(advertised)
        except ValueError:
            raise OperatorError(
                f"--advertise '{advertised}' is no address; write HOST:PORT as other nodes reach it"
            ) from None
    elif host in _ANYWHERE:
        raise OperatorError(
            f"--cluster-listen {config.cluster_listen} says not how other nodes reach this one: "
            "give --advertise HOST:PORT"
        )
    files = (config.cluster_cert, config.cluster_key, config.cluster_ca)
    if any(files) and not all(files):
        raise OperatorError("--cluster-cert, --cluster-key and --cluster-ca go together")
    check_plain(host, is_plain=config.cluster_plain, has_tls=all(files))
    tls = load_tls(*files) if all(files) else None
    if tls is not None:
        check_own(tls, config.cluster_node, config.cluster_cert, config.cluster_ca)
    return MemberSettings(
        config.cluster_name,
        config.cluster_node,
        host,
        port,
        advertised,
        parse_endpoints(config.cluster_coordinator),
        EtcdFiles(config.cluster_etcd_ca, config.cluster_etcd_cert, config.cluster_etcd_key),
        tls,
    )
