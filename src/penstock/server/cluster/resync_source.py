"""A data directory that is in use, read for a follower that copies it."""

import os
from pathlib import Path
from typing import Final

from penstock.base.limits import RESYNC_HASHED_BYTES, RESYNC_PAGE_ROWS, RESYNC_RANGE_BYTES
from penstock.replication.operations import OperationFault, check_path
from penstock.server.cluster.catalogue_replica import copy_rows
from penstock.server.cluster.follower_files import DATABASE, is_own
from penstock.server.cluster.resync_rows import (
    RANGE,
    FileRow,
    ManifestAsk,
    ManifestPage,
    RangesAsk,
    RangesPage,
    ResyncFault,
    RowsPage,
    decode_ask,
    encode,
    hash_of,
)

ASKED_MAX: Final = RESYNC_RANGE_BYTES.highest * 2


def paths_below(directory: Path) -> list[tuple[str, bool]]:
    """What a copy has of `directory`: paths in order, and whether each is a folder."""
    found: list[tuple[str, bool]] = []
    for folder, folders, names in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        begin = "" if inside == "." else f"{inside}/"
        found += [(begin + name, True) for name in folders if not is_own(begin + name)]
        found += [(begin + name, False) for name in names if not is_own(begin + name)]
        folders[:] = [name for name in folders if not is_own(begin + name)]
    return sorted(found)


class ResyncSource:
    """directory: of the leader. Used by one thread at a time. The names are those of the first
    question; what was made later comes with the entries since then."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._paths: list[tuple[str, bool]] = []
        self._rows: list[bytes] = []

    def answer(self, ask: bytes) -> bytes:
        """Raises: ResyncFault; OSError."""
        found = decode_ask(ask)
        if isinstance(found, ManifestAsk):
            return encode(self._manifest(found))
        if isinstance(found, RangesAsk):
            return encode(self._ranges(found))
        if found.page == 0:
            self._rows = copy_rows(self.directory / DATABASE)
        if not 0 <= found.page < len(self._rows):
            raise ResyncFault(f"page {found.page} of the catalogue, and it has {len(self._rows)}")
        is_last = found.page == len(self._rows) - 1
        return encode(RowsPage(self._rows[found.page], is_last))

    def close(self) -> None:
        """Nothing is asked any more."""
        self._paths = []
        self._rows = []

    def _manifest(self, ask: ManifestAsk) -> ManifestPage:
        if ask.path == "":
            self._paths = paths_below(self.directory)
        rows: list[FileRow] = []
        left = RESYNC_HASHED_BYTES.default
        at = ask.at
        for path, is_folder in self._paths:
            if path < ask.path:
                continue
            if left <= 0 or len(rows) >= RESYNC_PAGE_ROWS.default:
                return ManifestPage(rows, path, 0)
            if is_folder:
                rows.append(FileRow(path, is_folder=True))
                continue
            row = self._file(path, at if path == ask.path else 0, left)
            if row is None:
                continue
            rows.append(row)
            end = row.first + len(row.hashes) * RANGE
            left -= len(row.hashes) * RANGE
            if end < row.size:
                return ManifestPage(rows, path, end)
        return ManifestPage(rows, "", 0)

    def _file(self, path: str, at: int, most: int) -> FileRow | None:
        """Some ranges of a file; None if it is gone."""
        try:
            with open(self.directory / path, "rb", buffering=0) as file:
                row = FileRow(path, os.fstat(file.fileno()).st_size, at, [])
                while at < row.size and most > 0:
                    row.hashes.append(hash_of(os.pread(file.fileno(), RANGE, at)))
                    at += RANGE
                    most -= RANGE
                return row
        except FileNotFoundError:
            return None

    def _ranges(self, ask: RangesAsk) -> RangesPage:
        if sum(one.size for one in ask.ranges) > ASKED_MAX:
            raise ResyncFault(f"ranges of more than {ASKED_MAX} bytes at once")
        parts: list[bytes] = []
        for one in ask.ranges:
            try:
                check_path(one.path)
            except OperationFault as fault:
                raise ResyncFault(str(fault)) from fault
            if is_own(one.path) or one.at < 0 or one.size < 0:
                raise ResyncFault(f"a range of {one.path!r}, which is of this node alone")
            parts.append(self._range(one.path, one.at, one.size))
        return RangesPage(parts)

    def _range(self, path: str, at: int, size: int) -> bytes:
        try:
            with open(self.directory / path, "rb", buffering=0) as file:
                return os.pread(file.fileno(), size, at)
        except FileNotFoundError:
            return b""
