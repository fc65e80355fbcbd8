"""Directories for what a long command writes at its end: made before it begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.base.errors import OperatorError


def make_folder(path: Path, option: str) -> None:
    """Have `path` as a directory, so that no run is lost for want of one. option: that named it.
    Raises: OperatorError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"cannot make the directory {path}: {error.strerror or error}; choose another with "
            f"{option}"
        ) from error


@contextmanager
def told_where(folder: Path) -> Iterator[None]:
    """What is written in the block goes into `folder`. Raises: OperatorError where it cannot be: a
    full disk would be taken for one of standard output."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise OperatorError(f"{place} cannot be written: {error.strerror or error}") from error
