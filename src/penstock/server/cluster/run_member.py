"""A node of a cluster from its start to its end: files, sockets, etcd, signals."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.broker import Log
from penstock.replication.member import Member
from penstock.replication.state import MemberState, Origin
from penstock.replication.timing import Bounds, Timing
from penstock.server.boot.log_lines import log_of
from penstock.server.boot.management_child import ManagementChild, is_management_wanted
from penstock.server.cluster.admission import Self
from penstock.server.cluster.agreed import AGREED, cores_fault, read_agreed
from penstock.server.cluster.coordinator import CoordinatorThread
from penstock.server.cluster.etcd import EtcdFault, EtcdStore
from penstock.server.cluster.member import MemberNode, now_ms
from penstock.server.cluster.member_answers import MemberAnswers
from penstock.server.cluster.member_events import DiskEvents
from penstock.server.cluster.member_files import has_data, read_state
from penstock.server.cluster.member_sockets import MemberSockets
from penstock.server.cluster.replica_disk import ReplicaDisk
from penstock.server.cluster.settings import MemberSettings, member_settings
from penstock.server.cluster.siblings import Siblings
from penstock.server.control.control_client import cluster_path
from penstock.server.control.control_socket import ControlSocket
from penstock.server.machine.clock import SystemClock
from penstock.server.machine.machine import SystemChance, machine_start
from penstock.server.machine.settle import settle_process
from penstock.server.net.listener import raise_limit


async def serve_member(
    config: Config,
    announce: Callable[[MemberNode], None],
    reread: Callable[[], Config] | None = None,
) -> None:
    """Run a node of a cluster until SIGINT or SIGTERM. `announce(node)` is called when it listens;
    reread: the settings as they are written now, for SIGHUP, None where they are written nowhere.
    Raises: OperatorError."""
    loop = asyncio.get_running_loop()
    settings = member_settings(config)
    raise_limit(config.connections_max * 2)
    log = log_of(config, SystemClock())
    store = EtcdStore(settings.endpoints, settings.prefix, settings.etcd_files)
    await loop.run_in_executor(None, _look_at_etcd, store, log)
    sockets = MemberSockets(config)
    try:
        node = make_member(config, settings, sockets, log)
    except BaseException:
        sockets.close()
        raise
    node.reread = reread
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, node.stop)
    loop.add_signal_handler(signal.SIGHUP, node.hang_up)
    answers = MemberAnswers(node)
    asked = cluster_path(sockets.port, config.control_socket)
    control = ControlSocket(asked, answers.answer)
    # On every node: the control socket leads to the broker wherever that is.
    management = None
    if is_management_wanted(config):
        management = ManagementChild(config, node.questions.path, log, sockets.local(), asked)
    try:
        await node.start(CoordinatorThread(store, settings.name, node.me.boot_id, node))
        await control.start()
        announce(node)
        settle_process()
        if management is not None:
            management.start()
        await node.over.wait()
    finally:
        if management is not None:
            await management.stop()
        await control.close()
        await node.close()
    if node.failure is not None:
        raise node.failure


def _look_at_etcd(store: EtcdStore, log: Log) -> None:
    """One answer before anything is opened: an etcd that must not be used is refused at once, one
    that is not there yet may come. Raises: OperatorError."""
    try:
        found = store.read()
        agreed = found.get(AGREED)
        if agreed is not None:
            wrong = cores_fault(read_agreed(agreed.value), 1)
            if wrong:
                raise OperatorError(wrong)
    except EtcdFault as fault:
        log.warning(f"no etcd answers yet: {fault}; this node waits for one")


def make_member(
    config: Config,
    settings: MemberSettings,
    sockets: MemberSockets,
    log: Log,
    siblings: Siblings | None = None,
) -> MemberNode:
    """Takes the data directory. siblings: the other members of this node, None where there are
    none. Raises: OperatorError."""
    path = Path(config.data_dir)
    boot_id = uuid4().hex[:12]
    state = read_state(path)
    is_new = state is None
    had_data = has_data(path, state)
    if state is None:
        state = MemberState(identity=uuid4().hex)
    late = _LateEvents()
    disk = ReplicaDisk(path, boot_id, late)
    position = disk.open()
    if is_new:
        disk.position.write(0, 0, True)
    me = Self(settings.group, state.cluster_id, settings.name, state.identity, boot_id)
    member = Member(
        settings.name,
        state,
        position,
        Origin(has_data=had_data, cluster_id=uuid4().hex),
        _timing(config),
        Bounds(
            retention_bytes=config.cluster_retention_bytes,
            resync_backlog_bytes=config.cluster_resync_backlog_bytes,
        ),
        SystemChance(),
        now_ms(),
        _machine(),
    )
    node = MemberNode(config, settings, member, me, disk, sockets, log, log.info, siblings)
    disk.events = node
    return node


def _machine() -> str:
    """Of this start of the machine; where it does not say, another one each time."""
    start = machine_start()
    return start.hex() if any(start) else uuid4().hex


def _timing(config: Config) -> Timing:
    return Timing(
        heartbeat_ms=config.cluster_heartbeat_ms,
        silence_ms=config.cluster_silence_ms,
        quorum_ms=config.cluster_quorum_ms,
        election_ms=config.cluster_election_ms,
        disk_stall_ms=config.cluster_disk_stall_ms,
        in_sync_ms=config.cluster_in_sync_ms,
        link_grace_ms=config.cluster_link_grace_ms,
    )


class _LateEvents(DiskEvents):
    """Until the member is made nothing can have become of its directory."""
