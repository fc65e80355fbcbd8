"""A follower makes its data directory a copy of its leader's, which goes on working meanwhile.

What differs is fetched, what is too much is removed; the catalogue comes row by row. Until all
entries since the beginning are applied, too, the directory is marked as not whole: such a node
counts for no majority, and leads nobody. A copy that is broken off is begun again.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from errno import ECANCELED
from pathlib import Path
from typing import TypeVar

from penstock.replication.operations import ROW_KEPT, OperationFault, check_path, decode
from penstock.server.cluster.follower_files import FollowerFiles, is_own
from penstock.server.cluster.position import PositionFile
from penstock.server.cluster.resync_rows import (
    RANGE,
    Ask,
    FileRow,
    ManifestAsk,
    ManifestPage,
    Page,
    Range,
    RangesAsk,
    RangesPage,
    ResyncFault,
    RowsAsk,
    RowsPage,
    decode_page,
    encode,
    hash_of,
)
from penstock.server.cluster.resync_source import paths_below

Answer = TypeVar("Answer", ManifestPage, RangesPage, RowsPage)


@dataclass(slots=True)
class ResyncReport:
    """files: of the leader; bytes_copied, bytes_same: fetched, and there already; removed: files
    and folders that were too much."""

    files: int = 0
    bytes_copied: int = 0
    bytes_same: int = 0
    removed: int = 0


def run_resync(
    directory: Path,
    position: PositionFile,
    epoch: int,
    seq: int,
    ask: Callable[[bytes], bytes],
    bytes_per_s: int = 0,
    is_stopped: Callable[[], bool] = lambda: False,
) -> ResyncReport:
    """Copy the leader's directory as it was at entry (epoch, seq) or later, and leave that as the
    position, not whole. ask: has a question answered by the leader's ResyncSource; bytes_per_s: 0
    for no bound. The caller holds the lock of `directory`.

    Raises: OSError, ECANCELED when `is_stopped` says so; ResyncFault, OperationFault, OperatorError
    for what the leader says."""
    stored = position.read()
    before = (0, 0) if stored is None else (stored.epoch, stored.seq)
    position.write(*before, False)
    files = FollowerFiles(directory)
    try:
        copy = _Copy(directory, files, ask, bytes_per_s, is_stopped)
        copy.run()
        files.sync_all()
    finally:
        files.close()
    position.write(epoch, seq, False)
    return copy.report


class _Copy:
    """One run of it."""

    def __init__(
        self,
        directory: Path,
        files: FollowerFiles,
        ask: Callable[[bytes], bytes],
        bytes_per_s: int,
        is_stopped: Callable[[], bool],
    ) -> None:
        self.directory = directory
        self.files = files
        self.ask = ask
        self.bytes_per_s = bytes_per_s
        self.is_stopped = is_stopped
        self.report = ResyncReport()
        self.wanted: list[Range] = []
        self.wanted_bytes = 0
        self.names: dict[str, bool] = {}
        self.began = time.monotonic()

    def run(self) -> None:
        where = ManifestAsk()
        while True:
            page = self._answer(where, ManifestPage)
            for row in page.rows:
                self._compare(row)
            if page.next_path == "":
                break
            where = ManifestAsk(page.next_path, page.next_at)
        self._fetch()
        self._remove()
        self._copy_rows()

    def _answer(self, ask: Ask, kind: type[Answer]) -> Answer:
        if self.is_stopped():
            raise OSError(ECANCELED, "copying the leader's data directory was broken off")
        page: Page = decode_page(self.ask(encode(ask)))
        if not isinstance(page, kind):
            raise ResyncFault(f"asked for {kind.__name__}, the leader answers {type(page)}")
        return page

    # -- files -----------------------------------------------------------------------------------

    def _compare(self, row: FileRow) -> None:
        check_path(row.path)
        if is_own(row.path):
            raise OperationFault(f"the leader offers {row.path!r}, which is of each node alone")
        path = self.directory / row.path
        if row.path not in self.names:
            self._make_way(row, path)
            self.report.files += 0 if row.is_folder else 1
        self.names[row.path] = row.is_folder
        if row.is_folder:
            return
        with open(path, "rb", buffering=0) as file:
            for number, there in enumerate(row.hashes):
                at = row.first + number * RANGE
                size = min(RANGE, row.size - at)
                if hash_of(os.pread(file.fileno(), size, at)) == there:
                    self.report.bytes_same += size
                else:
                    self._want(Range(row.path, at, size))

    def _make_way(self, row: FileRow, path: Path) -> None:
        """A folder, or a file of the right size."""
        if path.is_dir() and not row.is_folder:
            self.files.remove_folder(row.path)
        elif path.is_file() and row.is_folder:
            self.files.remove(row.path)
        if row.is_folder:
            path.mkdir(0o700, exist_ok=True)
        elif not path.exists() or path.stat().st_size != row.size:
            self.files.truncate(row.path, row.size)

    def _want(self, one: Range) -> None:
        self.wanted.append(one)
        self.wanted_bytes += one.size
        if self.wanted_bytes >= RANGE:
            self._fetch()

    def _fetch(self) -> None:
        wanted, self.wanted, self.wanted_bytes = self.wanted, [], 0
        if not wanted:
            return
        page = self._answer(RangesAsk(wanted), RangesPage)
        if len(page.parts) != len(wanted):
            raise ResyncFault(f"{len(page.parts)} ranges came, and {len(wanted)} were asked for")
        for one, data in zip(wanted, page.parts, strict=True):
            if len(data) > one.size:
                raise ResyncFault(f"{len(data)} bytes of {one.path} came instead of {one.size}")
            # What is missing was cut or removed since, and an entry says so.
            self.files.write(one.path, one.at, data)
            self.report.bytes_copied += len(data)
        self._keep_pace()

    def _keep_pace(self) -> None:
        if self.bytes_per_s <= 0:
            return
        due = self.began + self.report.bytes_copied / self.bytes_per_s
        while (left := due - time.monotonic()) > 0 and not self.is_stopped():
            time.sleep(min(left, 0.1))

    def _remove(self) -> None:
        """What the leader has not."""
        for path, is_folder in reversed(paths_below(self.directory)):
            if self.names.get(path) is not None:
                continue
            self.report.removed += 1
            if is_folder:
                self.files.remove_folder(path)
            else:
                self.files.remove(path)

    # -- the catalogue ---------------------------------------------------------------------------

    def _copy_rows(self) -> None:
        rows = self.files.rows()
        rows.clear()
        number = 0
        while True:
            page = self._answer(RowsAsk(number), RowsPage)
            for one in decode(page.entry):
                if one.kind != ROW_KEPT:
                    raise ResyncFault(f"an operation of kind {one.kind} among rows to be copied")
                rows.apply(one)
            if page.is_last:
                break
            number += 1
        rows.commit()
