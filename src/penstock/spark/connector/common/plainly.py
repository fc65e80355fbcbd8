"""Errors that Spark shows as their sentence, and not behind a stack of its own calls.

Spark takes what a Python worker has to say of an exception as text: the whole traceback, unless
SPARK_HIDE_TRACEBACK is set in that worker when it fails. Our own errors say what to do, and every
line before that is one too many. Other exceptions are mistakes of the program, and keep theirs.
A worker ends with its exception, so nothing is changed for whatever runs next.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from penstock.base.errors import PenstockError

HIDE: Final = "SPARK_HIDE_TRACEBACK"
C = TypeVar("C", bound=type)


def plainly(cls: C) -> C:
    """Every public method that `cls` has itself, so that its own errors are shown plainly."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__init__"):
            setattr(cls, name, _wrapped(method))
    return cls


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def iterate(*given: Any, **named: Any) -> Iterator[Any]:
            yield from _watched(method(*given, **named))

        return iterate

    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            found = method(*given, **named)
        except PenstockError as error:
            raise _bare(error) from None
        return _watched(found) if inspect.isgenerator(found) else found

    return call


def _watched(rows: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except PenstockError as error:
        raise _bare(error) from None


def _bare(error: PenstockError) -> PenstockError:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    # In a process that Spark has started to run this, and in no program of the user's.
    if spec is not None and spec.name.startswith("pyspark."):
        os.environ[HIDE] = "1"
    return error
