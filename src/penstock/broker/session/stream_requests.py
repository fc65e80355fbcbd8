"""Requests about streams and their reader groups; docs/requests.md."""

from typing import Final

from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.tickets import Ask, refused
from penstock.broker.stream.stream_actor import StreamActor, stream_of
from penstock.broker.stream.stream_groups import StreamGroupRegistry, StreamGroups
from penstock.protocol.values import Table, Value
from penstock.streams.reader_groups import LagBound, ReaderGroup

NUMBER_MAX: Final = (1 << 62) - 1
NAME_BYTES_MAX: Final = 200


def stream_offsets(ask: Ask) -> None:
    """stream.offsets {queue} -> {first, next, bytes, id}: what can be read now is first..next-1; a
    stream with another `id` is another one, whatever its name.

    Raises: ChannelFault 404 for no such queue, 406 for one that is no stream."""
    actor = as_stream(ask.queue("queue"))
    log = actor.counts.log
    assert log is not None, "a stream has its log before anybody hears of it"
    said: Table = {
        "first": int(log.first()),
        "next": int(log.committed),
        "bytes": int(log.disk_bytes),
        "id": actor.stream_id,
    }
    ask.ticket.settle(said)


def as_stream(actor: QueueActor) -> StreamActor:
    """`actor`, which is a stream. Raises: ChannelFault 406."""
    stream = stream_of(actor)
    if stream is None:
        raise refused(f"queue '{actor.name}' in vhost '{actor.vhost}' is no stream")
    return stream


def group_register(ask: Ask) -> None:
    """stream.group.register {queue, group, offset, max_lag_messages, max_lag_bytes} -> {offset,
    first, next, lag_messages, lag_bytes}: the group is there, and on the disk.

    Raises: ChannelFault 404, 405, 406."""
    actor = as_stream(ask.queue("queue"))
    groups, registry = _parts(actor)
    own = LagBound(
        ask.number_of("max_lag_messages", 0, NUMBER_MAX, 0),
        ask.number_of("max_lag_bytes", 0, NUMBER_MAX, 0),
    )
    group = groups.register(_name(ask), own, ask.number_of("offset", -1, NUMBER_MAX, -1))
    registry.keep(actor, group, lambda: ask.ticket.settle(_told(groups, group)))


def group_advance(ask: Ask) -> None:
    """stream.group.advance {queue, group, offset} -> as register: everything before `offset` is
    done with. Kept lazily; never goes back.

    Raises: ChannelFault 404 for no such group too."""
    actor = as_stream(ask.queue("queue"))
    groups, registry = _parts(actor)
    group = _known(groups, _name(ask), actor)
    groups.advance(group, ask.number_of("offset", 0, NUMBER_MAX))
    registry.note_moved(actor, groups, group)
    ask.ticket.settle(_told(groups, group))


def group_remove(ask: Ask) -> None:
    """stream.group.remove {queue, group} -> {offset}: where it was. Raises: as advance."""
    actor = as_stream(ask.queue("queue"))
    ask.ticket.settle({"offset": end_group(actor, _name(ask))})


def end_group(actor: StreamActor, name: str) -> int:
    """Forget the group `name`; where it was. Raises: ChannelFault 404."""
    groups, registry = _parts(actor)
    group = _known(groups, name, actor)
    groups.remove(group.name)
    registry.remove(actor, group.name)
    return int(group.position)


def group_list(ask: Ask) -> None:
    """stream.groups {queue} -> {groups: [{group, offset, lag_messages, lag_bytes, is_holding}]}.

    Raises: ChannelFault 404, 405, 406."""
    groups, _ = _parts(as_stream(ask.queue("queue")))
    rows: list[Value] = []
    for name in sorted(groups.groups):
        group = groups.groups[name]
        rows.append({"group": name, **_told(groups, group), "is_holding": group.is_holding})
    ask.ticket.settle({"groups": rows})


def _parts(actor: StreamActor) -> tuple[StreamGroups, StreamGroupRegistry]:
    groups, registry = actor.groups, actor.group_registry
    assert groups is not None, "a stream has its log before a client hears of it"
    assert registry is not None, "the broker gives one to every stream"
    return groups, registry


def _name(ask: Ask) -> str:
    name = ask.text("group")
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise refused(f"argument 'group' has to have 1 to {NAME_BYTES_MAX} bytes")
    return name


def _known(groups: StreamGroups, name: str, actor: StreamActor) -> ReaderGroup:
    group = groups.groups.get(name)
    if group is None:
        raise refused(f"no group '{name}' reads stream '{actor.name}'", 404)
    return group


def _told(groups: StreamGroups, group: ReaderGroup) -> Table:
    log = groups.log
    return {
        "offset": int(group.position),
        "first": int(log.first()),
        "next": int(log.committed),
        "lag_messages": int(group.lag_messages(log)),
        "lag_bytes": int(group.lag_bytes(log)),
        "held_ns": groups.actor.held_ns(groups.identity_of(group)),
    }
