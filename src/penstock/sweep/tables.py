"""The table of a sweep on disk: rows are appended, never changed, and found again by their key.

    OUT/rows/part-*.parquet                        without deltalake
    OUT/rows/_delta_log/, OUT/rows/part-*.parquet  with it, as a Delta table
A part is written whole under another name first, so that a sweep that is killed leaves a part that
is there or one that is not. Rows with an error are not kept: their points are run again next time.
A folder goes on as what it is; only a new one is a Delta table wherever deltalake is installed.
"""

import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote
from uuid import uuid4

from penstock.base.errors import OperatorError
from penstock.sweep.choices import AUTO, DELTA, PARQUET
from penstock.sweep.point import SCHEMA, Key, Row, key_of

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER: Final = "rows"
_UNFINISHED: Final = "unfinished-"
_UNFIT: Final = re.compile(r"[%\[\\\]^|\x00-\x1f]")
"""In a path: what deltalake writes below it is elsewhere, or nowhere."""


class RowTable:
    """The table in `out`, which is made when the first rows come. kind: DELTA, PARQUET, or AUTO for
    what is there, else for what can be. Raises: OperatorError when it cannot be that."""

    def __init__(self, out: Path, kind: str = AUTO) -> None:
        self.folder = out / FOLDER
        if find_spec("pyarrow") is None:
            raise OperatorError(
                "a sweep keeps its rows in a table, and pyarrow, which writes it, is not "
                "installed: pip install 'penstock-mq[spark]'"
            )
        self.kind = _kind(self.folder, kind)

    def rows(self) -> list[Row]:
        """All there are, each key once. Raises: OperatorError for files that are no such table."""
        if not self.folder.is_dir():
            return []
        table = self._read()
        missing = [name for name in SCHEMA if name not in table.column_names]
        if missing:
            raise OperatorError(
                f"{self.folder} has no column '{missing[0]}', so it is not the table of a sweep; "
                "choose another --out"
            )
        found: dict[Key, Row] = {}
        for row in table.select(list(SCHEMA)).to_pylist():
            found[key_of(row)] = row
        return list(found.values())

    def append(self, rows: Sequence[Row]) -> None:
        """Keep those of `rows` that have figures. They are on the disk when this returns.
        Raises: OperatorError when they cannot be."""
        good = [row for row in rows if not row["error"]]
        if not good:
            return
        table = table_of(good)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if self.kind == DELTA:
                _write_delta(self.folder, table)
            else:
                _write_part(self.folder, table)
        except OSError as error:
            raise OperatorError(
                f"{self.folder} cannot be written: {error.strerror or error}; what was kept before "
                "stays"
            ) from error

    def _read(self) -> "pa.Table":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if self.kind == DELTA:
                paths = _delta_files(self.folder)
            else:
                paths = [str(path) for path in sorted(self.folder.glob("part-*.parquet"))]
            tables = [pq.ParquetFile(path).read() for path in paths]
        except (OSError, pa.ArrowInvalid) as error:
            raise OperatorError(
                f"{self.folder} cannot be read: {error}; remove what is damaged, its points are "
                "run again"
            ) from error
        return pa.concat_tables(tables) if tables else table_of([])


def table_of(rows: Sequence[Row]) -> "pa.Table":
    """`rows` with the columns and types of a sweep."""
    import pyarrow as pa

    schema = pa.schema([(name, getattr(pa, _ARROW.get(kind, kind))()) for name, kind in _COLUMNS])
    return pa.Table.from_pylist(list(rows), schema)


_COLUMNS: Final = tuple(SCHEMA.items())
_ARROW: Final = {"double": "float64", "bool": "bool_"}


def _kind(folder: Path, wanted: str) -> str:
    has_delta = find_spec("deltalake") is not None
    is_delta = (folder / "_delta_log").is_dir()
    is_parquet = not is_delta and any(folder.glob("part-*.parquet"))
    if (is_delta or wanted == DELTA) and not has_delta:
        raise OperatorError(
            f"{folder} is a Delta table, or is to be one, and deltalake is not installed: "
            "pip install deltalake, or choose another --out with --table parquet"
        )
    unfit = _UNFIT.search(str(folder.absolute()))
    if (is_delta or wanted == DELTA) and unfit:
        raise OperatorError(
            f"{folder}: deltalake does not find what it writes below a path with {unfit[0]!r}; "
            "choose another --out, or --table parquet"
        )
    for is_there, kind, other in ((is_delta, DELTA, PARQUET), (is_parquet, PARQUET, DELTA)):
        if is_there and wanted == other:
            raise OperatorError(f"{folder} is kept as {kind}; leave --table away to go on with it")
    if is_delta or is_parquet:
        return DELTA if is_delta else PARQUET
    if wanted == AUTO:
        return DELTA if has_delta and not unfit else PARQUET
    return wanted


def _delta_files(folder: Path) -> list[str]:
    """Raises: OSError."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return [unquote(uri) for uri in DeltaTable(str(folder)).file_uris()]
    except DeltaError as error:
        raise OSError(str(error).splitlines()[0]) from error


def _write_delta(folder: Path, table: "pa.Table") -> None:
    """Raises: OSError."""
    from deltalake import write_deltalake
    from deltalake.exceptions import DeltaError

    try:
        write_deltalake(str(folder), table, mode="append")
    except DeltaError as error:
        raise OSError(str(error).splitlines()[0]) from error


def _write_part(folder: Path, table: "pa.Table") -> None:
    import pyarrow.parquet as pq

    name = uuid4().hex
    unfinished = folder / f"{_UNFINISHED}{name}"
    try:
        with unfinished.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(folder / f"part-{name}.parquet")
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
