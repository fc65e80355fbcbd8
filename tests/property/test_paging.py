"""A paged queue against a plain list: any order of publishes, takes, returns, passes of both rules,
batches, reads that come late, losses and purges. Order (P3), counts, books."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.queues.queue import ReadRequest
from penstock.storage.log.reading import ReadJob
from tests.property.paging_rig import PagedRig

EMBED_BELOW = 60


class PagedMachine(RuleBasedStateMachine):
    """late: a read that was done and has not arrived."""

    @initialize(is_durable=st.booleans())
    def begin(self, is_durable: bool) -> None:
        self.rig = PagedRig(is_durable)
        self.late: tuple[ReadRequest, ReadJob] | None = None
        for number in range(30):
            self.rig.publish(20, number % 10 < 7, number // 10)

    @rule(
        sizes=st.lists(st.sampled_from((0, 20, 90, 400)), min_size=1, max_size=24),
        persistent=st.sampled_from(("all", "none", "some")),
        origin=st.integers(0, 2),
    )
    def publish(self, sizes: list[int], persistent: str, origin: int) -> None:
        for at, size in enumerate(sizes):
            keeps = persistent == "all" or (persistent == "some" and at % 2 == 0)
            self.rig.publish(size, keeps, origin)

    @rule(count=st.integers(1, 20))
    def take(self, count: int) -> None:
        for _ in range(min(count, int(self.rig.queue.at_hand()))):
            self.rig.take()

    @precondition(lambda self: self.rig.out)
    @rule(data=st.data(), count=st.integers(1, 6), is_ack=st.booleans())
    def answer(self, data: st.DataObject, count: int, is_ack: bool) -> None:
        for _ in range(min(count, len(self.rig.out))):
            position = data.draw(st.sampled_from(sorted(self.rig.out)))
            if is_ack:
                self.rig.ack(position)
            else:
                self.rig.requeue(position)

    @rule(
        aim=st.sampled_from((0, 500, 2000)),
        pass_bytes=st.sampled_from((0, 100, 600, 5000)),
        pass_count=st.sampled_from((0, 3, 1 << 62)),
        is_idle=st.booleans(),
    )
    def page_bytes(self, aim: int, pass_bytes: int, pass_count: int, is_idle: bool) -> None:
        paged = self.rig.paged
        if is_idle:
            self.rig.append()
        before = paged.bytes_ready
        saves = paged.page_bytes(aim, pass_bytes, pass_count)
        self.rig.save(saves)
        saved = sum(len(one.raw) for one in saves)
        assert saved <= pass_bytes or (len(saves) == 1 and pass_bytes > 0)
        assert len(saves) <= pass_count
        assert before > aim or not saves

    @rule(
        quota=st.integers(0, 30),
        aim=st.integers(0, 20),
        credit=st.integers(0, 10),
        embed_below=st.sampled_from((0, EMBED_BELOW)),
    )
    def page_bodies(self, quota: int, aim: int, credit: int, embed_below: int) -> None:
        queue = self.rig.paged
        before = queue.ram_count()
        paged = queue.page_bodies_count(quota, aim, credit, embed_below)
        assert 0 <= paged.count <= quota
        assert len(paged.charged) <= credit
        assert before > aim or paged.count == 0
        assert queue.ram_count() >= min(before, aim)
        self.rig.save(paged.in_order())

    @rule(
        permitted=st.integers(0, 20),
        batch=st.integers(1, 5),
        most=st.integers(1, 30),
        entries=st.sampled_from((1, 8)),
    )
    def page_positions(self, permitted: int, batch: int, most: int, entries: int) -> None:
        queue = self.rig.paged
        self.rig.save(queue.page_bodies_count(20, 5, 20, 0).in_order())
        self.rig.append()
        before = len(queue.behind.q2) + len(queue.behind.q3)
        moved = queue.page_positions(permitted, batch, most, entries)
        assert moved <= max(0, before - permitted)
        assert moved == 0 or before - permitted >= batch

    @rule(count=st.integers(1, 30))
    def append(self, count: int) -> None:
        self.rig.append(count)

    @rule()
    def flush(self) -> None:
        self.rig.flush()

    @precondition(lambda self: self.late is None)
    @rule(bytes_max=st.sampled_from((100, 1000, 100_000)))
    def read(self, bytes_max: int) -> None:
        self.rig.flush()
        self.late = self.rig.begin_read(bytes_max)

    @precondition(lambda self: self.late is not None)
    @rule()
    def arrive(self) -> None:
        assert self.late is not None
        wanted, job = self.late
        self.late = None
        self.rig.paged.arrived(wanted, job.found)

    @rule(bytes_max=st.sampled_from((300, 1000)), aim=st.sampled_from((0, 300)))
    def read_and_page_again(self, bytes_max: int, aim: int) -> None:
        """While a read is under way the front it is for leaves memory."""
        rig = self.rig
        rig.append()
        rig.flush()
        rig.read(bytes_max)
        begun = rig.begin_read(2 * bytes_max)
        rig.save(rig.paged.page_bytes(aim, 5000, 1 << 62))
        if begun is not None:
            rig.paged.arrived(begun[0], begun[1].found)

    @precondition(lambda self: self.late is not None and self.late[1].found)
    @rule()
    def lose(self) -> None:
        """The first message of a read turns out to be damaged."""
        assert self.late is not None
        wanted, job = self.late
        self.late = None
        self.rig.lose(wanted, job.found[0])

    @precondition(lambda self: self.rig.out)
    @rule(data=st.data())
    def page_out(self, data: st.DataObject) -> None:
        """What is out with a consumer becomes a stub."""
        self.rig.page_out(data.draw(st.sampled_from(sorted(self.rig.out))))

    @precondition(lambda self: len(self.rig.expected) > 20)
    @rule()
    def shed(self) -> None:
        self.rig.shed()

    @precondition(lambda self: len(self.rig.expected) > 60)
    @rule()
    def purge(self) -> None:
        count = len(self.rig.expected)
        assert self.rig.purge() == count

    @invariant()
    def keeps_the_laws(self) -> None:
        if hasattr(self, "rig"):
            self.rig.check()

    def teardown(self) -> None:
        """Everything comes out in its order, and then nothing is owed and nothing on the disk."""
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        for position in list(rig.out):
            rig.requeue(position)
        rig.paged.page_bytes(1 << 40, 0, 0)
        rig.drain()
        rig.check()
        rig.append()
        assert rig.log.live_count(rig.index) == 0
        assert rig.scratch.live_count(rig.spill) == 0
        assert [int(one.stored_bytes) for one in rig.origins] == [0, 0, 0]
        assert rig.paged.bytes_ready == 0
        assert rig.paged.paged_bytes() == 0


TestPagedMessages = PagedMachine.TestCase
TestPagedMessages.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
