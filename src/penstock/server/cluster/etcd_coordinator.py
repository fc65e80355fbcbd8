"""What replication asks of its coordinator, answered by etcd: keys, and JSON in them."""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.replication.config import ClusterConfig, Promise
from penstock.replication.coordinator import Coordinator
from penstock.server.cluster.coordinator import (
    PROMISES,
    SUSPICIONS,
    CoordinatorThread,
    CoordinatorView,
)

KEPT_EPOCHS: Final = 2
"""Promises and suspicions of earlier ones are removed."""


class MemberRow(msgspec.Struct, frozen=True):
    """What a member says of itself in etcd. address: where its peers dial; clients: where its
    clients do, for people; version: of Penstock."""

    identity: str
    address: str
    clients: str
    version: str


def read_config(data: bytes) -> ClusterConfig:
    """Raises: OperatorError."""
    try:
        return msgspec.json.decode(data, type=ClusterConfig)
    except msgspec.DecodeError as fault:
        raise OperatorError(
            f"the cluster's configuration in etcd cannot be read ({fault}): another version, or "
            "something else has written it; nothing is changed"
        ) from fault


def read_members(view: CoordinatorView) -> dict[str, MemberRow]:
    """Rows that cannot be read are left out: a newer version may have written them."""
    found = {}
    for name, data in view.members.items():
        try:
            found[name] = msgspec.json.decode(data, type=MemberRow)
        except msgspec.DecodeError:
            continue
    return found


class EtcdCoordinator(Coordinator):
    """thread: who talks to etcd. suspected: the epoch whose leader this member suspects, or 0;
    a suspicion that did not arrive while etcd was away is put again, as one that is still there
    is taken back again."""

    def __init__(self, thread: CoordinatorThread) -> None:
        self.thread = thread
        self.suspected = 0
        self.promises: dict[tuple[int, str], bytes] = {}
        self.suspicions: set[tuple[int, str]] = set()

    def read_config(self) -> None:
        self.thread.poll_soon()

    def swap(self, number: int, expected_revision: int, config: ClusterConfig) -> None:
        self.thread.swap(number, expected_revision, msgspec.json.encode(config))

    def put_promise(self, promise: Promise) -> None:
        key = f"{PROMISES}{promise.epoch}/{promise.name}"
        self.thread.put(key, msgspec.json.encode(promise))

    def put_suspicion(self, epoch: int) -> None:
        self.suspected = epoch
        self.thread.put(f"{SUSPICIONS}{epoch}/{self.thread.name}", b"{}")

    def withdraw_suspicion(self, epoch: int) -> None:
        self.suspected = 0
        self.thread.remove(f"{SUSPICIONS}{epoch}/{self.thread.name}")

    def news(
        self,
        view: CoordinatorView,
        epoch: int,
        promised: Callable[[Promise], None],
        suspected: Callable[[int, str], None],
        trusted: Callable[[int, str], None],
    ) -> None:
        """Say what is new in `view` since the last one. epoch: that the member is in."""
        for key, data in view.promises.items():
            if self.promises.get(key) != data:
                try:
                    promised(msgspec.json.decode(data, type=Promise))
                except msgspec.DecodeError:
                    continue
        self.promises = view.promises
        found = set(view.suspicions)
        own = {epoch for epoch, name in found if name == self.thread.name}
        if self.suspected < epoch:
            self.suspected = 0
        if self.suspected and self.suspected not in own:
            self.put_suspicion(self.suspected)
        for old in own - {self.suspected}:
            self.thread.remove(f"{SUSPICIONS}{old}/{self.thread.name}")
        for of_epoch, name in sorted(found - self.suspicions):
            suspected(of_epoch, name)
        for of_epoch, name in sorted(self.suspicions - found):
            trusted(of_epoch, name)
        self.suspicions = found

    def tidy(self, view: CoordinatorView, epoch: int) -> None:
        """Remove what is of epochs long before `epoch`; the leader does."""
        for prefix, rows in ((PROMISES, view.promises), (SUSPICIONS, view.suspicions)):
            for old, name in rows:
                if old <= epoch - KEPT_EPOCHS:
                    self.thread.remove(f"{prefix}{old}/{name}")
