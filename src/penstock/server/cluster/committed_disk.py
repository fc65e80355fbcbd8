"""A disk whose jobs have ended when everything they changed is safe wherever it has to be.

Ends of one client are told in the order of its jobs, because a client may count on that: the
catalogue takes a failure to be that of the oldest change it waits for. Ends of different clients
may overtake: a read tells what it found although a batch that was written before it is not
committed, so that consumers are served while publishers wait for a majority.
"""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.base.limits import CLUSTER_STOP_MS
from penstock.broker.actors.disk import JobClient
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.pipe import Nodes, PipeEnded, Places
from penstock.server.cluster.recorder import Recorder
from penstock.server.disk.disk_thread import DiskThread
from penstock.server.net.poller import READ, Poller, Watched
from penstock.storage.log.job import Job

NS_PER_MS: Final = 1_000_000
NEVER: Final = 1 << 62
"""No entry has this number, so none is ever committed."""


class News(Watched):
    """What the poller watches for the pipe."""

    __slots__ = ("disk",)

    def __init__(self, disk: "CommittedDisk") -> None:
        self.disk = disk

    def readable(self) -> bool:
        self.disk.listen()
        return True

    def gone(self) -> None:
        self.disk.listen()


class Ended:
    """A job that has ended here. need: the number of the entry it waits for, 0 for none, NEVER for
    one that could not be sent."""

    __slots__ = ("client", "error", "job", "need")

    def __init__(self, job: Job, client: JobClient, error: OSError | None, need: int) -> None:
        self.job = job
        self.client = client
        self.error = error
        self.need = need


class Mark(Job):
    """Runs between two other jobs: everything that those before it did has been sent then."""

    __slots__ = ("number", "recorder")

    def __init__(self, recorder: Recorder, number: int) -> None:
        self.recorder = recorder
        self.number = number

    def run(self) -> None:
        self.recorder.mark(self.number)


class Marks(JobClient):
    """Whoever asks hears the answer from the pipe."""

    __slots__ = ()

    def job_done(self, job: Job, error: OSError | None) -> None:
        """Nothing follows."""


@mypyc_attr(allow_interpreted_subclasses=True)
class CommittedDisk(DiskThread):
    """busy_since_ns: monotonic, of the job under way, 0 for none. on_pipe: called on the loop when
    the member wants a stop, or is gone; on_nodes, on_places: there, too, when it says how far nodes
    are, and which broker of this node has which virtual host."""

    __slots__ = (
        "_is_watched",
        "_loop_thread",
        "_marks",
        "_need",
        "_on_pipe",
        "_over",
        "_pipe",
        "_recorder",
        "_waiting",
        "busy_since_ns",
        "on_nodes",
        "on_places",
    )

    def __init__(self, poller: Poller, recorder: Recorder, on_pipe: Callable[[], None]) -> None:
        self._recorder = recorder
        self._on_pipe = on_pipe
        self._loop_thread = get_ident()
        self._pipe: ChildPipe = recorder.pipe
        self._over: deque[Ended] = deque()
        self._marks = Marks()
        self._waiting: dict[JobClient, deque[Ended]] = {}
        self.busy_since_ns = 0
        self.on_nodes: Callable[[Nodes], None] | None = None
        self.on_places: Callable[[Places], None] | None = None
        self._need = 0
        super().__init__(poller)
        self._pipe.on_news = self._news
        poller.watch(self._pipe.sock, News(self), READ)
        self._is_watched = True

    # -- on the disk's thread --------------------------------------------------------------------

    def work(self, job: Job, client: JobClient) -> None:
        self.busy_since_ns = time.monotonic_ns()
        self._recorder.begin()
        error = self.run(job)
        # Without a member nobody is told of any end any more, not even by a loop that is at the
        # ends of before and has not noticed yet.
        need = NEVER
        with suppress(PipeEnded):
            need = self._recorder.end()
        self.busy_since_ns = 0
        self._over.append(Ended(job, client, error, need))
        # What has to wait is looked at when the pipe has news; looked at in this order, no news
        # between the two lines is missed.
        if need <= self._pipe.committed:
            self.ring()
        with suppress(PipeEnded):
            self._pipe.wait_room()

    def _news(self) -> None:
        """On any thread: there is more committed, or the member is gone."""
        pipe = self._pipe
        is_told = pipe.nodes is not None or pipe.places is not None
        if get_ident() != self._loop_thread or pipe.marks or is_told:
            self.ring()

    # -- on the loop -----------------------------------------------------------------------------

    def listen(self) -> None:
        """The pipe has something to say."""
        self._pipe.receive()
        if self._pipe.ended:
            self._unwatch()
        self.tell()

    def tell(self) -> None:
        if self._pipe.ended:
            self._on_pipe()
            return
        while self._pipe.marks:
            self.submit(Mark(self._recorder, self._pipe.marks.popleft()), self._marks)
        while self._over:
            one = self._over.popleft()
            behind = self._waiting.get(one.client)
            if behind is not None:
                behind.append(one)
            elif one.need > self._pipe.committed:
                self._waiting[one.client] = deque((one,))
            else:
                self._tell_end(one)
        if self._waiting:
            self._tell_committed()
        nodes, self._pipe.nodes = self._pipe.nodes, None
        if nodes is not None and self.on_nodes is not None:
            self.on_nodes(nodes)
        places, self._pipe.places = self._pipe.places, None
        if places is not None and self.on_places is not None:
            self.on_places(places)
        if self._pipe.is_stop_asked:
            self._on_pipe()

    def _tell_committed(self) -> None:
        committed = self._pipe.committed
        for client, line in list(self._waiting.items()):
            while line and line[0].need <= committed:
                self._tell_end(line.popleft())
            if not line:
                del self._waiting[client]

    def _tell_end(self, one: Ended) -> None:
        self._need = one.need
        one.client.job_done(one.job, one.error)

    def keeps_publishes(self) -> bool:
        return True

    def needs(self) -> int:
        return self._need

    def stalled_ms(self) -> int:
        """For how long the disk has been at the job under way, 0 without one."""
        since_ns = self.busy_since_ns
        return 0 if since_ns == 0 else (time.monotonic_ns() - since_ns) // NS_PER_MS

    def close(self) -> None:
        """As a disk's, but what no majority has is waited for a bounded time. Clients of the broker
        are gone by now, so telling an end of what is not committed confirms nothing."""
        self._pipe.is_closing = True
        self.join()
        self._pipe.wait_committed(self._pipe.sent, CLUSTER_STOP_MS.default)
        if not self._pipe.ended:
            self.tell()
            for client, line in list(self._waiting.items()):
                for one in line:
                    client.job_done(one.job, one.error)
            self._waiting.clear()
        self._unwatch()
        self.hang_up()

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            with suppress(OSError, ValueError):
                self.poller.unwatch(self._pipe.sock)
