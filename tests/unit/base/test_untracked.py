"""Lists that the garbage collector does not look at."""

import gc
import weakref

from penstock.base.untracked import untracked


class Leaf:
    """Something to refer to."""


def test_the_collector_has_forgotten_the_list_for_good() -> None:
    items: list[object] = untracked([1])
    assert not gc.is_tracked(items)
    items.extend([[] for _ in range(5_000)])
    del items[:100]
    assert not gc.is_tracked(items)
    assert gc.is_tracked(items[0])


def test_it_is_freed_with_what_it_holds() -> None:
    leaf = Leaf()
    there = weakref.ref(leaf)
    items = untracked([leaf])
    del leaf
    gc.collect()
    assert there() is not None
    del items
    assert there() is None
