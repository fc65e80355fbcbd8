"""Token buckets and meters: what passes, what waits, who is let on, in which order."""

from penstock.base.clock import ManualClock
from penstock.flow.due import DueLine
from penstock.flow.rate import Bucket, Meter, RatePayer, RateWaiter

S = 1_000_000_000
MS = 1_000_000


def test_a_bucket_starts_full_and_fills_at_its_rate() -> None:
    bucket = Bucket(100, 10, 0)
    assert bucket.level(0) == 10
    bucket.take(10, 0)
    assert not bucket.has_token(0)
    assert not bucket.has_token(10 * MS - 1), "the whole token is there after 10 ms"
    assert bucket.has_token(10 * MS)
    assert bucket.level(S) == 10, "no more than the burst gathers"


def test_what_is_larger_than_the_burst_passes_and_is_paid_for_afterwards() -> None:
    bucket = Bucket(1000, 100, 0)
    assert bucket.has_token(0)
    bucket.take(5000, 0)
    assert bucket.level(0) == -4900
    assert bucket.due_ns(1, 0) == 4_901 * MS
    assert bucket.has_token(4_901 * MS)


def test_a_rate_that_does_not_divide_a_second_loses_nothing_by_rounding() -> None:
    bucket = Bucket(3, 1, 0)
    passed, now_ns = 0, 0
    for _ in range(301):
        now_ns = bucket.due_ns(1, now_ns)
        bucket.take(1, now_ns)
        passed += 1
    assert passed == 301 and 99 * S <= now_ns <= 100 * S + 300


def test_a_change_keeps_what_has_gathered_up_to_the_new_burst() -> None:
    bucket = Bucket(100, 100, 0)
    bucket.change(10, 5, 0)
    assert bucket.level(0) == 5
    bucket.take(5, 0)
    bucket.change(1000, 100, 0)
    assert bucket.level(10 * MS) == 10


class Queueing(RateWaiter):
    """Wants to pass `left` publishes of `size`; keeps its place in line as a connection does."""

    def __init__(self, name: str, meters: list[Meter], left: int, size: int = 1) -> None:
        self.name = name
        self.left = left
        self.size = size
        self.passed = 0
        self.payer = RatePayer(meters, self)

    def want(self, now_ns: int) -> None:
        while self.left > 0 and not self.payer.is_waiting():
            if not self.payer.passes(self.size, now_ns):
                self.payer.held[1] = None
                self.payer.wait(now_ns)
                return
            self._pass()

    def rate_due(self, now_ns: int) -> None:
        payer = self.payer
        payer.served_by, payer.waits_at = payer.waits_at, None
        is_paid = payer.passes(self.size, now_ns)
        payer.served_by = None
        if not is_paid:
            payer.wait(now_ns)
            return
        payer.held.clear()
        self._pass()

    def _pass(self) -> None:
        self.left -= 1
        self.passed += 1


class Scene:
    """Meters on one line, driven by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.line = DueLine()

    def meter(self, name: str, messages: int, bytes_: int = 0, burst_ms: int = 100) -> Meter:
        meter = Meter(name, self.clock, self.line)
        meter.set_limits(messages, bytes_, burst_ms * MS)
        return meter

    def run(self, seconds: float, *waiters: Queueing) -> None:
        """A millisecond at a time: what is due, then everybody wants on in the same order."""
        for _ in range(round(seconds * 1000)):
            now_ns = self.clock.monotonic_ns()
            self.line.fire(now_ns)
            for waiter in waiters:
                waiter.want(now_ns)
            self.clock.advance(MS)


def test_one_sender_gets_its_rate_and_no_more_than_one_burst_besides() -> None:
    scene = Scene()
    waiter = Queueing("a", [scene.meter("m", 500)], 1 << 30)
    scene.run(10, waiter)
    assert 5000 <= waiter.passed <= 5050


def test_both_kinds_of_tokens_are_needed() -> None:
    scene = Scene()
    waiter = Queueing("a", [scene.meter("m", 1000, 10_000)], 1 << 30, size=100)
    scene.run(10, waiter)
    assert 980 <= waiter.passed <= 1000 + 10, "bytes allow 100 a second"


def test_senders_at_one_meter_get_equal_parts_though_the_first_always_asks_first() -> None:
    scene = Scene()
    meter = scene.meter("m", 10_000)
    waiters = [Queueing(str(index), [meter], 1 << 30) for index in range(7)]
    scene.run(5, *waiters)
    passed = [waiter.passed for waiter in waiters]
    assert 49_900 <= sum(passed) <= 51_000
    assert max(passed) - 1000 < 1.05 * min(passed), "all but the burst, which the first one had"


def test_nobody_starves_where_there_is_one_token_for_many() -> None:
    scene = Scene()
    meter = scene.meter("m", 20)
    waiters = [Queueing(str(index), [meter], 1 << 30) for index in range(10)]
    scene.run(10, *waiters)
    passed = [waiter.passed for waiter in waiters]
    assert min(passed) >= 19, passed


def test_who_pays_at_two_full_meters_is_not_sent_from_one_to_the_other_for_ever() -> None:
    scene = Scene()
    user, vhost = scene.meter("user", 100), scene.meter("vhost", 150)
    both = [Queueing(str(index), [user, vhost], 1 << 30) for index in range(3)]
    other = [Queueing(f"o{index}", [vhost], 1 << 30) for index in range(3)]
    scene.run(10, *both, *other)
    passed = [waiter.passed for waiter in (*both, *other)]
    assert 1500 <= sum(passed) <= 1530
    assert min(passed) >= 200, passed


def test_a_fast_limit_does_not_wake_somebody_for_every_publish() -> None:
    scene = Scene()
    meter = scene.meter("m", 100_000)
    waiter = Queueing("a", [meter], 1 << 30)
    fired = 0
    for _ in range(10_000):
        now_ns = scene.clock.monotonic_ns()
        due_ns = scene.line.next_ns()
        if 0 <= due_ns <= now_ns:
            fired += 1
        scene.line.fire(now_ns)
        waiter.want(now_ns)
        scene.clock.advance(MS // 10)
    assert fired <= 101, "ten milliseconds of tokens gather in between"
    assert waiter.passed >= 100_000


def test_who_leaves_is_not_let_on() -> None:
    scene = Scene()
    meter = scene.meter("m", 1)
    waiter = Queueing("a", [meter], 2)
    waiter.want(0)
    assert meter.waiting and len(scene.line) == 1
    waiter.payer.leave()
    assert not meter.waiting and len(scene.line) == 0


def test_a_raised_limit_lets_those_on_who_wait() -> None:
    scene = Scene()
    meter = scene.meter("m", 1)
    waiter = Queueing("a", [meter], 2)
    waiter.want(0)
    assert waiter.left == 1
    meter.set_limits(0, 0, 100 * MS)
    scene.line.fire(0)
    assert waiter.left == 0
