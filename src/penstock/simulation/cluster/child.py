"""The broker of a simulated leader: writes its directory, sends entries, waits for its disk."""

from typing import TYPE_CHECKING

from penstock.simulation.cluster.directory import CELLS, Write, pack

if TYPE_CHECKING:
    from penstock.simulation.cluster.node import SimNode

WINDOW_BYTES = 2000
ORDERLY_STOP_MS = 600


class SimChild:
    """One life of it. next_seq: number of its next entry; is_stopping: it begins no entry more."""

    def __init__(self, node: "SimNode", epoch: int, next_seq: int) -> None:
        self.node = node
        self.world = node.world
        self.epoch = epoch
        self.next_seq = next_seq
        self.is_alive = True
        self.is_stopping = False
        self.marks: list[int] = []
        self._open: list[Write] = []
        self._pipe_ns = 0
        # Recovery takes a moment, and writes.
        self._later(self.world.dice.between(2, 30), self._work)
        is_mirrored = self.world.is_mirrored
        self._later(1, lambda: node.member.mirrored(is_mirrored, node.now_ms()))

    def _later(self, delay_ms: float, action: "object") -> None:
        assert callable(action), "because it is done later"

        def act() -> None:
            if self.is_alive and self.node.is_up:
                self.node.deliver("child", action)

        self.world.after(delay_ms, act)

    def _work(self) -> None:
        dice = self.world.dice
        if not self.is_alive or self.is_stopping:
            return
        if self.node.member.uncommitted_bytes > WINDOW_BYTES or not self.world.is_loaded:
            self._later(20, self._work)
            return
        self._open = [self._drawn() for _ in range(dice.between(1, 4))]
        half = dice.below(len(self._open) + 1)
        self.node.directory.write(self._open[:half])
        open_ms = 40 if dice.happens(10) else dice.skewed(8000) / 1000
        self._later(open_ms, lambda: self._send(half))

    def _drawn(self) -> Write:
        self.world.values += 1
        value = 0 if self.world.dice.happens(10) else self.world.values
        return self.world.dice.below(CELLS), value

    def _send(self, half: int) -> None:
        node = self.node
        node.directory.write(self._open[half:])
        payload = pack(self._open)
        self._open = []
        seq = self.next_seq
        self.next_seq += 1
        self._pipe(lambda: node.child_sent(self, seq, payload))
        node.disk.sync_for(self, seq)
        self._answer_marks()
        self._later(self.world.dice.skewed(self.world.pace_ms), self._work)

    def _pipe(self, action: "object") -> None:
        """To the member, in order, a moment later."""
        assert callable(action), "because it is done later"
        now = self.world.now_ns
        self._pipe_ns = max(self._pipe_ns + 1, now + self.world.dice.below(400_000))
        self._later((self._pipe_ns - now) / 1e6, action)

    def synced(self, seq: int) -> None:
        """Everything up to that entry is on the disk."""
        self._pipe(lambda: self.node.child_synced(self, seq))

    def mark(self, number: int) -> None:
        """Answer when no entry is open."""
        self.marks.append(number)
        if not self._open:
            self._answer_marks()

    def _answer_marks(self) -> None:
        for number in self.marks:
            self._pipe(lambda n=number: self.node.member.marked(n, self.node.now_ms()))
        self.marks.clear()

    def stop(self) -> None:
        """End in order: what is open is sent, what is sent is synced."""
        self.is_stopping = True
        self._stop_soon(0)

    def _stop_soon(self, waited_ms: int) -> None:
        node = self.node
        is_done = not self._open and node.slot.seq == self.next_seq - 1
        if is_done or waited_ms > ORDERLY_STOP_MS:
            self.kill()
            node.tell_stopped(is_done)
        else:
            self._later(10, lambda: self._stop_soon(waited_ms + 10))

    def kill(self) -> None:
        self.is_alive = False
        self.node.disk.forget_child()
