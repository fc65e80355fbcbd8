"""A broker in memory whose machine says what the test states: memory, control group, disk."""

from penstock.broker.admin.alarm_watch import AlarmWatch, MachineProbe, offer
from penstock.protocol import methods as m
from tests.unit.broker.peer import MS, Bed, Peer

MB = 1_000_000
TOTAL = 1000 * MB


class StatedProbe(MachineProbe):
    """looked: how often objects that refer to one another were looked for.
    used, others, free: as stated; reserve: what the reserve file takes while it is there."""

    def __init__(self, bed: Bed) -> None:
        self.disk_dir = "/data"
        self.bed = bed
        self.total_bytes = TOTAL
        self.used_bytes = 100 * MB
        self.others: list[int] = []
        self.group = (0, 0)
        self.garbage_bytes = 0
        self.looked = 0
        self.free_bytes = 500 * MB
        self.is_readable = True
        self.reserve_bytes = 0
        self.has_reserve = False

    def memory_total_bytes(self) -> int:
        return self.total_bytes

    def memory_used_bytes(self) -> int:
        return self.used_bytes

    def others_bytes(self) -> list[int]:
        return self.others

    def group_bytes(self) -> tuple[int, int]:
        return self.group

    def reclaim(self, looks: bool = True) -> None:
        self.looked += int(looks)
        self.used_bytes -= self.garbage_bytes
        self.garbage_bytes = 0

    def disk_free_bytes(self) -> int:
        if not self.is_readable:
            raise OSError(5, "Input/output error")
        return self.free_bytes

    def reserve_missing_bytes(self) -> int:
        return 0 if self.has_reserve else self.reserve_bytes

    def keep_reserve(self) -> None:
        if not self.has_reserve and self.reserve_bytes > 0:
            self.has_reserve = True
            self.free_bytes -= self.reserve_bytes

    def give_up_reserve(self) -> None:
        if self.has_reserve:
            self.has_reserve = False
            self.free_bytes += self.reserve_bytes

    def changed(self) -> None:
        self.bed.run()


class AlarmBed(Bed):
    """With a watch over it. `use` and `leave` say what the machine has, and look."""

    def __init__(self, **settings: object) -> None:
        super().__init__(400 * MB, queue_depth_bytes=1 << 40, **settings)
        self.around = StatedProbe(self)
        self.watch = AlarmWatch(self.broker, self.around)
        offer(self.broker.settings, self.watch)
        self.manager = self.broker.alarm_manager

    def use(self, used_bytes: int) -> None:
        """The process uses so much; a second passes."""
        self.around.used_bytes = used_bytes
        self.clock.advance(1000 * MS)
        self.watch.check_memory()
        self.run()

    def squeeze(self) -> None:
        """A mark just below what the process uses. A test's queues hold some MB, so that little
        is what the process is said to use: what they hold explains it."""
        self.around.used_bytes = 1_000_000
        self.change("memory.high", "1010kB")
        self.use(1_020_000)

    def leave(self, free_bytes: int) -> int:
        """So much is free on the disk; milliseconds until the next look."""
        self.around.free_bytes = free_bytes
        wait_ms = self.watch.check_disk()
        self.run()
        return wait_ms

    def change(self, key: str, text: str) -> None:
        """An operator changes a setting."""
        self.broker.settings.write(key, text)

    def publisher(self, name: str, queue: str, held_bytes: int = 0) -> Peer:
        """A peer that has published, and has about so many bytes in `queue`."""
        peer = self.connect(name)
        peer.call(1, m.QueueDeclare(queue), m.QueueDeclareOk)
        peer.publish(queue, b"first")
        while held_bytes > 0:
            peer.publish(queue, b"x" * min(held_bytes, 100_000))
            held_bytes -= 100_000
        return peer

    def ready(self, queue: str) -> int:
        return int(self.broker.vhosts["/"].queues[queue].messages.ready_count())

    def state(self, peer: Peer) -> str:
        return peer.connection.state(self.clock.monotonic_ns())

    def alarms(self) -> list[str]:
        return list(self.broker.alarms)


def kinds(peer: Peer) -> list[type[m.Method]]:
    """The kinds of what is heard."""
    return [type(one.method) for one in peer.heard()]
