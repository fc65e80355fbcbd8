"""Lists that the garbage collector does not look at.

The collector visits everything that a list refers to. A queue of thirty million messages is thirty
thousand lists of a thousand, and each time ten thousand have come since it looked last, it visits
ten million messages in one go: a quarter to half a second, in which nobody is served. What such a
list holds leads back to no list, so there is nothing to find.

Source: Python/C API, PyObject_GC_UnTrack. Where there is no such function, lists stay as they are.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")


def _ours() -> Callable[[Any], None] | None:
    found = getattr(getattr(ctypes, "pythonapi", None), "PyObject_GC_UnTrack", None)
    if found is None:
        return None
    found.argtypes = [ctypes.py_object]
    found.restype = None
    forget: Callable[[Any], None] = found
    return forget


_UNTRACK: Final = _ours()


def untracked(items: list[T]) -> list[T]:
    """The same list, which the collector forgets. What it holds, now and later, may not lead back
    to it: such a ring would never be freed."""
    if _UNTRACK is not None:
        _UNTRACK(items)
    return items
