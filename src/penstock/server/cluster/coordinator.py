"""The member's conversation with etcd, in a thread of its own: reads, changes, and the lease.

Reading is level-triggered: everything below the cluster's prefix is read every POLL_S, at once when
a link says that something has changed, and after each change of ours. So no event can be lost, an
etcd that was away for an hour needs no catching up, and one that hangs holds this thread alone.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

from penstock.base.errors import OperatorError
from penstock.server.cluster.etcd import EtcdFault, EtcdStore, Stored
from penstock.server.cluster.kept_settings import KEPT, NOTHING, save

POLL_S: Final = 0.5
LEASE_S: Final = 10
RENEW_S: Final = 2.0
CONFIG: Final = "config"
MEMBERS: Final = "members/"
LIVE: Final = "live/"
PROMISES: Final = "promises/"
SUSPICIONS: Final = "suspicions/"


@dataclass(frozen=True, slots=True)
class CoordinatorView:
    """All that etcd says of the cluster, at one moment. config: None before there is a cluster;
    members, live: by name; promises, suspicions: by epoch and name; was_live: this member's own key
    under its lease had been written before; settings: that were changed while nodes run."""

    config: Stored | None = None
    members: dict[str, bytes] = field(default_factory=dict)
    live: dict[str, bytes] = field(default_factory=dict)
    promises: dict[tuple[int, str], bytes] = field(default_factory=dict)
    suspicions: dict[tuple[int, str], bytes] = field(default_factory=dict)
    was_live: bool = False
    settings: Stored | None = None


def view_of(found: dict[str, Stored], *, was_live: bool = False) -> CoordinatorView:
    """Keys without meaning here are left alone: a newer version may have written them."""
    view = CoordinatorView(found.get(CONFIG), was_live=was_live, settings=found.get(KEPT))
    for key, stored in found.items():
        if key.startswith(MEMBERS):
            view.members[key.removeprefix(MEMBERS)] = stored.value
        elif key.startswith(LIVE):
            view.live[key.removeprefix(LIVE)] = stored.value
        for prefix, rows in ((PROMISES, view.promises), (SUSPICIONS, view.suspicions)):
            epoch, _, name = key.removeprefix(prefix).partition("/")
            if key.startswith(prefix) and epoch.isdecimal():
                rows[int(epoch), name] = stored.value
    return view


Job = Callable[[EtcdStore], None]


class CoordinatorEvents:
    """What etcd has to say; called on the loop. The member's, and a test's."""

    def seen(self, view: CoordinatorView) -> None:
        """What it holds now."""
        raise NotImplementedError

    def swapped(self, number: int, is_done: bool | None) -> None:
        """None: nobody knows."""
        raise NotImplementedError

    def kept(self, changes: dict[str, str], after: dict[str, str] | None, words: str) -> None:
        """Settings. after: all that etcd has now, None for `words` why it has not taken them."""
        raise NotImplementedError

    def changed(self) -> None:
        """Something of ours was written: others want to look."""
        raise NotImplementedError

    def reached(self, is_reachable: bool, words: str) -> None:
        """Changed. words: what is wrong, "" for nothing."""
        raise NotImplementedError

    def refused(self, error: OperatorError) -> None:
        """An etcd that must not be used answers."""
        raise NotImplementedError


class CoordinatorThread:
    """Owns the thread, and the member's key under a lease. boot_id: what is written there;
    was_live: the key was written once."""

    def __init__(
        self, store: EtcdStore, name: str, boot_id: str, events: CoordinatorEvents
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = store
        self.name = name
        self.boot_id = boot_id
        self.events = events
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.is_poll_wanted = False
        self.is_live_wanted = False
        self.was_live = False
        self.is_reachable: bool | None = None
        self.next_renewal = 0.0
        self.thread = threading.Thread(target=self._run, name="etcd", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def poll_soon(self) -> None:
        """Read now; many wishes are one reading."""
        if not self.is_poll_wanted:
            self.is_poll_wanted = True
            self.jobs.put(_nothing)

    def swap(self, number: int, revision: int, value: bytes) -> None:
        """Compare the configuration's revision, and swap."""

        def work(store: EtcdStore) -> None:
            try:
                is_done = store.swap(CONFIG, revision, value)
            except Exception:
                self._tell(self.events.swapped, number, None)
                raise
            self._tell(self.events.swapped, number, is_done)

        self._change(work)

    def put(self, key: str, value: bytes) -> None:
        """One key, below the prefix."""
        self._change(lambda store: store.put(key, value))

    def keep_settings(self, changes: dict[str, str], lost: dict[str, str]) -> None:
        """Add them to what etcd has, and of `lost` what it has not; `kept` is the answer."""

        def work(store: EtcdStore) -> None:
            try:
                after = save(store, changes, lost)
            except Exception as fault:
                self._tell(self.events.kept, changes, None, str(fault))
                raise
            self._tell(self.events.kept, changes, after, "")

        self._change(work)

    def drop_settings(self, revision: int) -> None:
        """All of them, if they were changed last in `revision`."""
        self._change(lambda store: store.swap(KEPT, revision, NOTHING))

    def remove(self, key: str) -> None:
        """One key, below the prefix."""
        self._change(lambda store: store.delete(key))

    def live(self) -> None:
        """From now on this member's life is a key under a lease."""
        self.is_live_wanted = True
        self.jobs.put(_nothing)

    def die(self) -> None:
        """End the lease: others need not wait for it to expire."""
        self.is_live_wanted = False
        self._change(lambda store: store.revoke())

    def close(self, patience_s: float) -> None:
        """Let what was asked for be done, for so long at most."""
        self.jobs.put(None)
        if self.thread.is_alive():
            self.thread.join(patience_s)

    def _change(self, job: Callable[[EtcdStore], object]) -> None:
        def work(store: EtcdStore) -> None:
            job(store)
            self.is_poll_wanted = True
            self._tell(self.events.changed)

        self.jobs.put(work)

    def _run(self) -> None:
        next_poll = 0.0
        while True:
            wait_s = 0.0 if self.is_poll_wanted else max(next_poll - time.monotonic(), 0.0)
            try:
                job = self.jobs.get(timeout=wait_s) if wait_s > 0 else self.jobs.get_nowait()
            except Empty:
                job = _nothing
            if job is None:
                break
            try:
                job(self.store)
                self._keep_alive()
                if self.jobs.empty() and (self.is_poll_wanted or time.monotonic() >= next_poll):
                    self.is_poll_wanted = False
                    next_poll = time.monotonic() + POLL_S
                    was_live = self.was_live
                    view = view_of(self.store.read(), was_live=was_live)
                    self._tell(self.events.seen, view)
                    # Only here: a job may be nothing at all, or have nothing to ask.
                    self._reach(True, "")
            except EtcdFault as fault:
                self._reach(False, str(fault))
                # Whatever was asked for is asked for again by those who still want it, when they
                # see the next view: nothing piles up here while etcd is away.
                self.is_poll_wanted = False
                next_poll = time.monotonic() + POLL_S
            except OperatorError as error:
                self._tell(self.events.refused, error)
                self.is_poll_wanted = False
                next_poll = time.monotonic() + POLL_S
            except Exception as fault:
                # Without this thread the node would never again hear of a change, and not say so.
                self._reach(False, f"internal error: {fault!r}")
                self.is_poll_wanted = False
                next_poll = time.monotonic() + POLL_S
        self.store.close()

    def _keep_alive(self) -> None:
        """Renew the lease; a member whose lease has ended while etcd was away gets another one."""
        now = time.monotonic()
        if not self.is_live_wanted or now < self.next_renewal:
            return
        if not self.store.renew():
            self.store.grant(LEASE_S)
            self.store.put(LIVE + self.name, self.boot_id.encode(), is_leased=True)
            self.is_poll_wanted = True
            self.was_live = True
        self.next_renewal = now + RENEW_S

    def _reach(self, is_reachable: bool, words: str) -> None:
        if self.is_reachable != is_reachable:
            self.is_reachable = is_reachable
            self._tell(self.events.reached, is_reachable, words)

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self.loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop has ended: nobody is there to be told.
            return


def _nothing(_: EtcdStore) -> None:
    """Wakes the thread."""
