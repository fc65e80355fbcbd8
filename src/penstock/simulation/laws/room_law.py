"""Laws of depth marks: what a queue holds and what is on its way never passes its mark by more than
one message, however many send, and nobody who waits for room is forgotten.

    books      in flight, lent and lined, by the room and by its hops: Room.check
    bound      above the mark and one message, senders hand over nothing more
    line       who has something parked for a queue that is tight stands in line, or was lent room
What comes past the room is not the senders': messages that are forced past closed hops, dead
letters, commits, what is read from the disk. Where one of these may have been at work since the
last look, the bound is not asserted, only its books. Raises: LawBroken naming queue and numbers.
Source: docs/flow.md, law 4; scenario 116.
"""

from penstock.broker.actors.lane import Lane
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.publish import Publisher
from penstock.broker.dead_letter.dead_letters import DeadLane
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.queue_actor import QueueActor
from penstock.flow.room import Room
from penstock.simulation.laws.watch import channels_of, queues_of
from penstock.simulation.machine.faults import LawBroken


class _Seen:
    """One queue at the last look. largest: message that was handed over to it so far."""

    def __init__(self) -> None:
        self.over = 0
        self.sent: dict[Lane, int] = {}
        self.mark = 0
        self.largest = 0


class RoomLaws:
    """Over one broker. Reads only; remembers one look. bounded_looks: how often the bound was
    asserted above its mark's half, so that a run can tell whether it has shown anything."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.bounded_looks = 0
        self._seen: dict[QueueActor, _Seen] = {}
        self._escapes = 0
        self._channels: set[Channel] = set()

    def look(self) -> None:
        """Everything that holds between any two turns."""
        channels = list(channels_of(self.broker))
        escapes = sum(int(one.escapes) for one in channels)
        has_forced = escapes != self._escapes or any(one.transaction for one in channels)
        # One that ends hands over all it has parked, past hops that are closed.
        has_forced = has_forced or not self._channels.issubset(channels)
        self._escapes = escapes
        self._channels = set(channels)
        alive: dict[QueueActor, _Seen] = {}
        for queue in queues_of(self.broker):
            room = queue.room
            if not isinstance(queue, ClassicActor) or room is None:
                continue
            try:
                room.check()
            except AssertionError as error:
                raise LawBroken(str(error)) from error
            seen = alive[queue] = self._seen.get(queue) or _Seen()
            self._bound(queue, room, seen, has_forced)
        self._seen = alive

    def _bound(self, queue: ClassicActor, room: Room, seen: _Seen, has_forced: bool) -> None:
        mark = int(queue.depth_bytes)
        over = int(queue.content_bytes()) + int(room.in_flight_bytes) - mark
        lanes = [lane for lane in queue.lanes if lane.room is room]
        sent = {lane: _sent(lane) for lane in lanes}
        seen.largest = max([seen.largest, *(int(lane.size_bytes) for lane in lanes)])
        has_sent = any(count != seen.sent.get(lane, 0) for lane, count in sent.items())
        is_excused = (
            has_forced
            or mark != seen.mark
            or mark == 0
            or queue.delays
            or queue.page_above < mark
            or queue.messages.has_entries
            or any(isinstance(lane, DeadLane) for lane in queue.lanes)
        )
        if not is_excused:
            self.bounded_looks += over + mark > mark // 2
            if has_sent and over > seen.largest and over > seen.over:
                raise LawBroken(
                    f"{queue.identity}: {over} bytes above its mark of {mark}, {seen.over} before, "
                    f"and the largest message is {seen.largest}"
                )
        seen.over, seen.mark, seen.sent = over, mark, sent

    def check_line(self) -> None:
        """Nothing is ready to run: nobody who waits for room may have been forgotten."""
        for queue in queues_of(self.broker):
            room = queue.room
            if room is None or not room.is_tight:
                continue
            for lane in queue.lanes:
                publisher = lane.answerable
                if not lane.is_shut or not isinstance(publisher, Publisher):
                    continue
                if publisher.next_bytes(lane) > 0 and not lane.is_lined:
                    raise LawBroken(f"{lane.name}: a publish waits for room and is not in line")
            queue_limits = queue.queue_limits
            is_full = queue_limits is not None and queue_limits.is_full
            # One that takes nothing looks again when it does.
            if room.may_serve() and not is_full and queue.may_take():
                raise LawBroken(f"{queue.identity} sleeps on room that others wait for")


def _sent(lane: Lane) -> int:
    return int(lane.granted + lane.deferred + lane.done + lane.in_flight)
