"""Which worker has which virtual host, in memory and over restarts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.server.disk.data_directory import PLACES, DataDirectory
from penstock.server.workers.placement import (
    NO_WORKER,
    Placement,
    directory_of,
    single_fault,
)


def reopened(placement: Placement, count: int) -> Placement:
    placement.close()
    return Placement(count, placement.data_dir)


def test_a_new_virtual_host_goes_to_the_worker_with_the_fewest(tmp_path: Path) -> None:
    placement = Placement(3, str(tmp_path))
    assert [placement.place(name) for name in ("/", "a", "b", "c")] == [0, 1, 2, 0]
    placement.forget("a")
    assert placement.worker_of("a") == NO_WORKER
    assert placement.place("d") == 1
    placement.close()


def test_it_stays_where_it_is(tmp_path: Path) -> None:
    placement = Placement(2, str(tmp_path))
    for name in ("/", "a", "b"):
        placement.place(name)
    placement.forget("/")
    again = reopened(placement, 4)
    assert again.vhosts() == {"a": 1, "b": 0}
    assert again.place("a") == 1
    assert again.of(1) == ["a"]
    again.close()


@given(
    count=st.integers(1, 6),
    steps=st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefgh")), max_size=40),
)
def test_workers_differ_by_no_more_than_what_was_deleted(
    count: int, steps: list[tuple[bool, str]]
) -> None:
    placement = Placement(count, "")
    gone = 0
    for is_new, name in steps:
        if is_new:
            placement.place(name)
        else:
            gone += placement.worker_of(name) != NO_WORKER
            placement.forget(name)
        sizes = [len(placement.of(worker)) for worker in range(count)]
        assert sum(sizes) == len(placement.vhosts())
        assert max(sizes) - min(sizes) <= 1 + gone


def test_fewer_workers_than_before_are_refused_by_name(tmp_path: Path) -> None:
    placement = Placement(3, str(tmp_path))
    for name in ("/", "a", "b"):
        placement.place(name)
    with pytest.raises(OperatorError, match=r"'b' of .* would have no worker; start .*--cores 3"):
        reopened(placement, 2)
    # Nothing of the refusal is left.
    Placement(3, str(tmp_path)).close()


def test_one_broker_alone_is_refused_while_others_have_something(tmp_path: Path) -> None:
    placement = Placement(2, str(tmp_path))
    placement.place("/")
    assert single_fault(str(tmp_path)) == ""
    placement.place("a")
    assert "'a' would be missing: start it with --cores 2" in single_fault(str(tmp_path))
    placement.close()


def test_what_one_broker_alone_had_is_worker_0s(tmp_path: Path) -> None:
    placement = Placement(2, str(tmp_path))
    placement.settle(("/", "a", "b"), True)
    assert placement.vhosts() == {"/": 0, "a": 0, "b": 0}
    placement.close()


def test_workers_are_compared_with_the_file(tmp_path: Path) -> None:
    placement = Placement(2, str(tmp_path))
    placement.place("/")
    placement.place("never made")
    placement.compare([["/", "of before"], []])
    assert placement.vhosts() == {"/": 0, "of before": 0}
    with pytest.raises(OperatorError, match="'/' is at worker 0 and at worker 1"):
        placement.compare([["/"], ["/"]])
    placement.close()


def test_two_parents_do_not_share_a_directory(tmp_path: Path) -> None:
    placement = Placement(2, str(tmp_path))
    with pytest.raises(OperatorError, match="served by other workers already"):
        Placement(2, str(tmp_path))
    reopened(placement, 2).close()


def test_a_damaged_file_is_named_and_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / PLACES
    path.write_text('{"vhosts": {"/": ')
    with pytest.raises(OperatorError, match=f"{PLACES} is damaged.*write it anew"):
        Placement(2, str(tmp_path))
    assert path.read_text() == '{"vhosts": {"/": '


def test_a_data_directory_may_begin_beside_the_file(tmp_path: Path) -> None:
    placement = Placement(2, str(tmp_path))
    placement.settle(("/",), False)
    DataDirectory(Path(directory_of(str(tmp_path), 0)), "boot").close()
    DataDirectory(Path(directory_of(str(tmp_path), 1)), "boot").close()
    assert (tmp_path / "workers" / "1" / "VERSION").exists()
    placement.close()
