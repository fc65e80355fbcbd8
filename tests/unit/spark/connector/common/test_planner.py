"""A batch over several queues: worth one or not, divided by what waits, bounded as a whole."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.connector.common.options import parse_source
from penstock.spark.connector.common.planner import plan_batch

OPTIONS = parse_source({"queues": "a,b,c"})


class Shelf:
    """Rows that are there, up to `end`; each takes ten bytes."""

    def __init__(self, end: int, waited_ms: float = 0.0, is_full: bool = False) -> None:
        self.end = end
        self.waited = waited_ms
        self.is_full = is_full
        self.begun = -1
        self.bytes_max = 0

    def initial(self) -> int:
        return 0

    def first(self) -> int:
        return 0

    def prepare_available_now(self) -> None:
        self.is_full = True

    def begin(self, start: int) -> None:
        self.begun = start

    def available(self, start: int) -> int:
        assert self.begun == start, "what is done is settled before anything is looked at"
        return self.end - start

    def waited_ms(self) -> float:
        return self.waited

    def is_pressing(self) -> bool:
        return self.is_full

    def plan(self, start: int, rows: int, bytes_max: int) -> int:
        self.bytes_max = bytes_max
        return start + rows

    def tail(self) -> int | None:
        return self.end

    def stop(self) -> None:
        self.end = 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), min_size=3, max_size=3),
    st.integers(3, 4000),
)
def test_no_more_than_the_limit_and_everybody_something(
    queues: list[tuple[int, int]], limit: int
) -> None:
    shelves = [Shelf(start + waiting) for start, waiting in queues]
    starts = [start for start, _ in queues]
    ends = plan_batch(shelves, starts, limit, OPTIONS)
    rows = [end - start for start, end in zip(starts, ends, strict=True)]
    assert sum(rows) == min(limit, sum(waiting for _, waiting in queues))
    assert all(
        (count > 0) == (waiting > 0) for count, (_, waiting) in zip(rows, queues, strict=True)
    )


def test_few_rows_wait_for_more_unless_one_of_them_waited_long_or_no_more_can_come() -> None:
    patient = replace(OPTIONS, min_rows=100, max_delay_ms=1000)
    few = [Shelf(20), Shelf(20), Shelf(0)]
    assert plan_batch(few, [0, 0, 0], 1000, patient) == [0, 0, 0]
    together = [Shelf(60), Shelf(40), Shelf(0)]
    assert plan_batch(together, [0, 0, 0], 1000, patient) == [60, 40, 0]
    late = [Shelf(20), Shelf(20, waited_ms=1000.0), Shelf(0)]
    assert plan_batch(late, [0, 0, 0], 1000, patient) == [20, 20, 0]
    full = [Shelf(20), Shelf(20), Shelf(0, is_full=True)]
    assert plan_batch(full, [0, 0, 0], 1000, patient) == [20, 20, 0]


def test_bytes_are_divided_as_rows_are() -> None:
    shelves = [Shelf(300), Shelf(100), Shelf(0)]
    plan_batch(shelves, [0, 0, 0], 40, replace(OPTIONS, max_bytes=1000))
    assert [shelf.bytes_max for shelf in shelves] == [750, 250, 0]
