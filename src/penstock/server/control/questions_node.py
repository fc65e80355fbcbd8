"""What the control socket answers about the node as a whole, and whether a login is right.

One request is {"op": "objects", "do": "node"}, or {"op": "objects", "do": "login", "user": ...,
"password": ..., "address": ...}, which the management process asks for those who come over HTTP.
"""

import math
import os
import resource
from typing import Final

import penstock
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.admin.replica_rows import cluster_of
from penstock.broker.alarm.alarm_manager import DISK, MEMORY
from penstock.broker.broker import Broker
from penstock.broker.session.node_counts import PASSED, NodeCounts
from penstock.explain.consumer_causes import PAUSED
from penstock.protocol.sasl import Credentials
from penstock.server.control.request import Request
from penstock.server.machine.build import build_words
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.flow_totals import FlowTotals
from penstock.telemetry.snapshots import ActorSnapshot

WINDOW_S: Final = 10.0
STEP_COUNTS: Final = 64
STEP_FILES: Final = 256
FILES: Final = "/proc/self/fd"
LOGIN_LOOK_S: Final = 0.005
TOTALS: Final = (
    *("connections", "channels", "exchanges", "queues", "consumers", "publishers"),
    *("messages_ready", "messages_unacknowledged"),
)
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000


def node(request: Request, seen: FlowTotals) -> Steps[dict[str, object]]:
    """The node and all that is counted on it, in steps. seen: by the recorder's rounds."""
    broker = request.broker
    counts = broker.counts.copy()
    totals = dict.fromkeys(TOTALS, 0)
    states = yield from _count_connections(broker, counts, totals)
    yield from _count_queues(broker, counts, totals)
    return {
        "node": broker.node_name,
        "cluster_name": broker.cluster_name,
        "version": penstock.__version__,
        "build": build_words(),
        "profile": broker.profile.name,
        "uptime_ms": (broker.clock.monotonic_ns() - broker.started_ns) // NS_PER_MS,
        "totals": totals,
        "states": states,
        "counts": {name: getattr(counts, name) for name in counts.__slots__}
        | {name: counts.all(name) for name in PASSED}
        | {
            "dropped": [
                {"queue_type": kind, "strategy": strategy, "reason": reason, "count": count}
                for (kind, strategy, reason), count in sorted(counts.dropped.items())
            ]
        },
        **(yield from _rates(request, seen)),
        "cluster": cluster_of(broker),
        "machine": _machine(broker, (yield from open_files())),
        "vhosts": list(broker.vhosts),
    }


def _count_connections(
    broker: Broker, counts: NodeCounts, totals: dict[str, int]
) -> Steps[dict[str, int]]:
    """Adds connections and channels to `counts` and `totals`: how many are in which state."""
    states: dict[str, int] = {}
    now_ns = broker.clock.monotonic_ns()
    for index, connection in enumerate(list(broker.connections.values()), 1):
        negotiator = broker.negotiators.get(connection.name)
        if negotiator is None or negotiator.session is None:
            continue
        totals["connections"] += 1
        state = connection.state(now_ns)
        states[state] = states.get(state, 0) + 1
        for channel in list(connection.channels.values()):
            totals["channels"] += 1
            totals["publishers"] += int(channel.publisher.publish_count > 0)
            counts.add_channel(channel)
        if index % STEP_COUNTS == 0:
            yield 0.0
    return states


def _count_queues(broker: Broker, counts: NodeCounts, totals: dict[str, int]) -> Steps[None]:
    """Adds exchanges and queues to `counts` and `totals`."""
    for vhost in list(broker.vhosts.values()):
        totals["exchanges"] += len(vhost.router.exchanges())
        counts.add_vhost(vhost)
        for index, actor in enumerate(list(vhost.queues.values()), 1):
            counts.add_queue(actor)
            if not vhost.is_internal(actor.name):
                totals["queues"] += 1
            totals["consumers"] += len(actor.consumers)
            totals["messages_ready"] += int(actor.messages.ready_count())
            totals["messages_unacknowledged"] += int(actor.unacked_count)
            if index % STEP_COUNTS == 0:
                yield 0.0


def _rates(request: Request, totals: FlowTotals) -> Steps[Row]:
    """Messages a second by what they did, publishers by how much they were held, queues that wait
    for consumers, and for how long senders were held by whom and why, added up."""
    publishers = {"running": 0, "throttled": 0, "blocked": 0}
    waiting = dict.fromkeys(WAITING, 0)
    windows = request.history.finding(WINDOW_S)
    for index, actor in enumerate(totals.latest(), 1):
        if actor.kind == "conn" and actor.numbers.get("published", 0.0) > 0.0:
            # Only those that were ever held are looked at more closely.
            was_held = actor.blocked.stops > 0 or actor.parked.stops > 0
            window = windows.get(actor.actor) if was_held else None
            publishers["running" if window is None else _how_held(window)] += 1
        elif actor.kind == "queue" and (why := _why_waiting(actor)) != "":
            waiting[why] += 1
        if index % STEP_COUNTS == 0:
            yield 0.0
    return {
        "rates": totals.rates(),
        "publishers": publishers,
        "queues_waiting": waiting,
        "held": [
            {"sender": sender, "receiver": receiver, "reason": reason, "seconds": ns / NS_PER_S}
            for (sender, receiver, reason), ns in sorted(totals.blocked_lately().items())
        ],
    }


def _how_held(window: ActorWindow) -> str:
    """A publisher is throttled when it was held, or publishes of it were parked, for 5 % of the
    window, and blocked when for all."""
    parked_share = window.parked_ns() / window.window_ns if window.window_ns > 0 else 0.0
    share = max(window.blocked_share(), parked_share)
    return "blocked" if share > 0.99 else "throttled" if share >= 0.05 else "running"


WAITING: Final = ("no_consumers", "window_full", "paused")
FULL_SHARE: Final = 0.9


def _why_waiting(queue: ActorSnapshot) -> str:
    """Why a queue that has messages gives them to no consumer, one of WAITING, "" if it does."""
    numbers = queue.numbers
    if numbers.get("ready", 0.0) <= 0.0:
        return ""
    if PAUSED in queue.labels:
        return "paused"
    if numbers.get("consumers", 0.0) <= 0.0:
        return "no_consumers"
    return "window_full" if numbers.get("prefetch_full_share", 0.0) >= FULL_SHARE else ""


def flow(broker: Broker, totals: FlowTotals) -> Row:
    """What flow control has done since the start, and what is under way."""
    page, dog = broker.node_account, broker.hop_watch.dog
    alarm_in_s = broker.alarm_manager.memory_alarm_in_s
    return {
        "blocked": [
            {"sender": sender, "receiver": receiver, "reason": reason, "seconds": ns / NS_PER_S}
            for (sender, receiver, reason), ns in sorted(totals.blocked_ns.items())
        ],
        "stops": dict(sorted(totals.stops.items())),
        "spent": [
            {"stage": kind, "mode": mode, "seconds": ns / NS_PER_S}
            for (kind, mode), ns in sorted(totals.spent_ns.items())
        ],
        "debt_messages": page.total_messages(),
        "debt_bytes": page.total_bytes(),
        "parked_messages": page.total_parked_messages(),
        "parked_bytes": page.total_parked_bytes(),
        "parked_disk_bytes": page.total_parked_disk_bytes(),
        "stuck_hops": dog.stuck_count,
        "lost_grants": dog.lost_count,
        # JSON has no infinity.
        "memory_alarm_in_s": None if math.isinf(alarm_in_s) else alarm_in_s,
    }


def _syncs(broker: Broker) -> Row:
    """Syncs of all stores: how many have ended, seconds all of them took, and for how long the
    oldest that is under way has lasted."""
    count, ns, running_ns = 0, 0, 0
    now_ns = broker.clock.monotonic_ns()
    directories = [one.log.handles.directory for one in broker.stores.stores.values()]
    directories += [one.handles.directory for one in broker.streams.stores.values()]
    for directory in directories:
        totals = directory.sync_totals()
        if totals is not None:
            count, ns = count + totals.count, ns + totals.ns
            began_ns = totals.began_ns
            running_ns = max(running_ns, now_ns - began_ns if began_ns >= 0 else 0)
    return {"count": count, "seconds": ns / NS_PER_S, "running_s": running_ns / NS_PER_S}


def open_files() -> Steps[int]:
    """How many files and sockets this process has open, 0 where the system does not say. Linux 6.2
    and later has counted them; to list them takes a microsecond or two for each."""
    try:
        told = os.stat(FILES).st_size
        return told if told > 0 else (yield from entries_in(FILES))
    except OSError:
        return 0


def entries_in(directory: str) -> Steps[int]:
    """How many there are, in steps. Raises: OSError."""
    count = 0
    with os.scandir(directory) as found:
        for count, _ in enumerate(found, 1):
            if count % STEP_FILES == 0:
                yield 0.0
    return count


def _machine(broker: Broker, open_count: int) -> Row:
    """This process, and the marks of its alarms. open_count: its files and sockets."""
    levels = broker.alarm_manager.levels
    disk, memory = levels.get(DISK), levels.get(MEMORY)
    alarms = broker.alarm_manager.alarms.resources()
    return {
        "os_pid": str(os.getpid()),
        "processors": os.cpu_count() or 1,
        "fd_used": open_count,
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "mem_used": broker.memory_used_bytes,
        "mem_limit": broker.memory_high_bytes if memory is None else memory.limit_bytes,
        "mem_alarm": MEMORY in alarms,
        "disk_free": 0 if disk is None else disk.now_bytes,
        "disk_free_limit": 0 if disk is None else disk.limit_bytes,
        "disk_free_alarm": DISK in alarms,
        "failure": broker.stores.failure,
        "syncs": _syncs(broker),
        "turns": int(broker.scheduler.turns),
        "events_dropped": int(broker.recorder.dropped),
        "login_failures": broker.guessing.failed_count,
    }


def login(request: Request) -> Steps[dict[str, object]]:
    """Whether `user` with `password` may come in from `address`: his tags and the virtual hosts
    that he may use, or why not. Guessing is answered as late as over AMQP."""
    broker = request.broker
    name, address = request.text("user"), request.text("address")
    given = Credentials(name, request.text("password"))
    said: list[str] = []
    broker.access.judge(given, address, said.append)
    while not said:
        yield LOGIN_LOOK_S
    if said[0] != "":
        answer = broker.guessing.failed(address, name, broker.clock.monotonic_ns())
        if answer.is_said:
            broker.log.warning(f"HTTP from {address}: {said[0]}")
            broker.host.audit.note(name, address, "login refused", "", {"over": "http"})
        yield answer.delay_ns / 1_000_000_000
        return {"refused": said[0]}
    user = broker.access.users.get(name)
    if user is None:
        return {"refused": f"user '{name}' is gone"}
    vhosts = [one for one in list(broker.vhosts) if broker.permissions.of(name, one) is not None]
    return {"user": name, "tags": list(user.tags), "vhosts": vhosts}
