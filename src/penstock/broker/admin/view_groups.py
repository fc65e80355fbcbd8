"""Snapshots of the reader groups of streams: who a stream waits for that takes nothing."""

from collections.abc import Iterator

from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.stream.stream_actor import StreamActor, stream_of
from penstock.explain.consumer_causes import (
    LAG_BYTES,
    LAG_BYTES_MAX,
    LAG_MESSAGES,
    LAG_MESSAGES_MAX,
    POSITION,
    STILL_NS,
)
from penstock.telemetry.snapshots import ActorSnapshot
from penstock.telemetry.words import duration


def has_groups(queue: QueueActor) -> bool:
    """Whether groups read it, which move without a trace in its own counts."""
    stream = stream_of(queue)
    return stream is not None and stream.groups is not None and bool(stream.groups.groups)


def group_snapshots(queue: QueueActor) -> Iterator[ActorSnapshot]:
    """Each group of a stream; none of other queues."""
    stream = stream_of(queue)
    if stream is None or stream.groups is None:
        return
    groups = stream.groups
    now_ns = queue.line.clock.monotonic_ns()
    for group in list(groups.groups.values()):
        yield ActorSnapshot(
            groups.identity_of(group),
            "group",
            "lagging" if group.is_holding else "",
            started_ns=queue.time.start_ns,
            numbers={
                POSITION: float(int(group.position)),
                LAG_MESSAGES: float(int(group.lag_messages(groups.log))),
                LAG_BYTES: float(int(group.lag_bytes(groups.log))),
                LAG_MESSAGES_MAX: float(int(group.bound.messages)),
                LAG_BYTES_MAX: float(int(group.bound.bytes)),
                STILL_NS: float(now_ns - int(group.since_ns)),
            },
            labels={"queue": queue.identity, "vhost": queue.vhost},
            taken_ns=now_ns,
        )


def groups_in_words(queue: StreamActor) -> str:
    """Each group, where it is and since when; "" without groups."""
    groups = queue.groups
    if groups is None:
        return ""
    now_ns = queue.line.clock.monotonic_ns()
    return "; ".join(
        f"{name} at {int(group.position)}, {int(group.lag_messages(groups.log))} behind, "
        f"still for {duration(now_ns - int(group.since_ns))}"
        + (", holds publishers" if group.is_holding else "")
        for name, group in sorted(groups.groups.items())
    )
