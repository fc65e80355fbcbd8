"""The line of what is due: order, moving, taking off, and what its waker is told."""

from penstock.flow.due import NEVER, STALE_MAX, DueLine, Timer, Waker


class Bell:
    """Notes when its timer fired; is_again: it puts itself on again at once."""

    def __init__(
        self, name: str, line: DueLine, rung: list[tuple[str, int]], is_again: bool = False
    ) -> None:
        self.name = name
        self.line = line
        self.rung = rung
        self.is_again = is_again
        self.timer = Timer(self.ring)

    def ring(self, now_ns: int) -> None:
        self.rung.append((self.name, now_ns))
        if self.is_again:
            self.line.put(self.timer, now_ns)


class Ear(Waker):
    def __init__(self) -> None:
        self.heard: list[int] = []

    def wake_at(self, due_ns: int) -> None:
        self.heard.append(due_ns)


def test_timers_fire_in_the_order_of_their_times_and_those_of_one_instant_as_they_came() -> None:
    line, rung = DueLine(), list[tuple[str, int]]()
    for name, due_ns in (("late", 30), ("first", 10), ("second", 10)):
        line.put(Bell(name, line, rung).timer, due_ns)
    line.fire(9)
    assert rung == []
    line.fire(29)
    assert rung == [("first", 29), ("second", 29)]
    line.fire(30)
    assert rung[2:] == [("late", 30)]
    assert len(line) == 0 and line.next_ns() == NEVER


def test_a_timer_stands_on_the_line_once_at_its_newest_time() -> None:
    line, rung = DueLine(), list[tuple[str, int]]()
    bell = Bell("bell", line, rung).timer
    line.put(bell, 10)
    line.put(bell, 50)
    line.fire(20)
    assert rung == [] and len(line) == 1
    line.put(bell, 30)
    line.fire(30)
    line.fire(60)
    assert rung == [("bell", 30)]


def test_what_is_taken_off_never_fires() -> None:
    line, rung = DueLine(), list[tuple[str, int]]()
    bell = Bell("bell", line, rung).timer
    line.put(bell, 10)
    line.take_off(bell)
    line.take_off(bell)
    line.fire(20)
    assert rung == [] and len(line) == 0 and bell.due_ns == NEVER


def test_what_is_put_on_again_while_it_fires_waits_for_the_next_call() -> None:
    line, rung = DueLine(), list[tuple[str, int]]()
    line.put(Bell("bell", line, rung, is_again=True).timer, 10)
    line.fire(10)
    assert rung == [("bell", 10)], "or one call would never end"
    line.fire(11)
    assert rung == [("bell", 10), ("bell", 11)]


def test_the_waker_is_told_of_the_earliest_time_only_when_it_moves_forward() -> None:
    line, rung = DueLine(), list[tuple[str, int]]()
    ear = Ear()
    line.waker = ear
    line.put(Bell("a", line, rung).timer, 30)
    line.put(Bell("b", line, rung).timer, 40)
    line.put(Bell("c", line, rung).timer, 20)
    assert ear.heard == [30, 20]
    line.fire(25)
    assert ear.heard == [30, 20, 30]
    line.fire(50)
    assert ear.heard == [30, 20, 30], "nothing is left"


def test_moving_a_timer_for_ever_keeps_the_line_small() -> None:
    line, rung = DueLine(), list[tuple[str, int]]()
    bell = Bell("bell", line, rung).timer
    for due_ns in range(10_000, 0, -1):
        line.put(bell, due_ns)
    assert len(line._heap) <= 2 + STALE_MAX
    line.fire(1)
    assert rung == [("bell", 1)]
