"""Which worker has which virtual host: one small file in the data directory, written whole.

    DIR               the data directory of worker 0
    DIR/workers/1     of worker 1, and so on
    DIR/workers.json  {"vhosts": {"/": 0, "tenant": 1}}

A virtual host is in the file before it is made anywhere, so that no second worker makes it after a
crash. It stays where it is.
"""

import os
from collections.abc import Callable, Iterable
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.server.disk.data_directory import PLACES, WORKERS
from penstock.server.disk.whole_file import write_whole

NO_WORKER: Final = -1


class Stored(msgspec.Struct):
    """What the file holds."""

    vhosts: dict[str, int] = {}


def directory_of(data_dir: str, worker: int) -> str:
    """Of a worker's own data; "" where nothing is kept."""
    return data_dir if worker == 0 or not data_dir else str(Path(data_dir) / WORKERS / str(worker))


def read_stored(data_dir: str) -> Stored:
    """What is there, nothing where no workers have been. Raises: OperatorError."""
    path = Path(data_dir) / PLACES
    try:
        return msgspec.json.decode(path.read_bytes(), type=Stored)
    except (FileNotFoundError, NotADirectoryError):
        return Stored()
    except OSError as fault:
        raise OperatorError(f"{path} cannot be read: {fault.strerror}") from fault
    except msgspec.DecodeError as fault:
        raise OperatorError(
            f"{path} is damaged ({fault}); it says which worker has which virtual host: write it "
            f'anew, as {{"vhosts": {{"/": 0, "NAME": 1}}}}; in {WORKERS}/1 … beside it '
            "are those of worker 1 …"
        ) from fault


def single_fault(data_dir: str) -> str:
    """Why one broker alone may not be started there, "" if it may: it would not have what other
    workers have. Raises: OperatorError for a file that is damaged."""
    away = sorted(name for name, worker in read_stored(data_dir).vhosts.items() if worker != 0)
    if not away:
        return ""
    count = max(read_stored(data_dir).vhosts.values()) + 1
    return (
        f"{data_dir} was served by several workers, and {_named(away)} would be missing: start it "
        f"with --cores {count}; or delete them there first"
    )


def _named(names: list[str]) -> str:
    shown = ", ".join(f"'{one}'" for one in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"virtual host{'s' if len(names) > 1 else ''} {shown}{more}"


class Placement:
    """count: workers there are; data_dir: "" where nothing is kept; changed: called after a change.
    Bound: the virtual hosts that the workers have, VHOSTS_MAX each."""

    def __init__(self, count: int, data_dir: str) -> None:
        """Raises: OperatorError where a virtual host is at a worker that there is not."""
        self.count = count
        self.data_dir = data_dir
        self.changed: Callable[[], None] | None = None
        self._lock = -1
        if data_dir:
            self._take_lock()
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        path = Path(self.data_dir) / WORKERS
        try:
            path.mkdir(0o700, parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            flock(self._lock, LOCK_EX | LOCK_NB)
        except BlockingIOError as fault:
            self.close()
            raise OperatorError(
                f"{self.data_dir} is served by other workers already; choose another directory "
                "with --data"
            ) from fault
        except OSError as fault:
            self.close()
            raise OperatorError(
                f"cannot use {path} for data: {fault.strerror}; choose another directory with "
                "--data, or none with --memory"
            ) from fault

    def _read(self) -> None:
        count, data_dir = self.count, self.data_dir
        self._places = read_stored(data_dir).vhosts if data_dir else {}
        away = sorted(name for name, worker in self._places.items() if not 0 <= worker < count)
        if away:
            wanted = max(self._places.values()) + 1
            raise OperatorError(
                f"--cores {count}: {_named(away)} of {data_dir} would have no worker; start with "
                f"--cores {wanted}, or delete them there first"
            )

    def close(self) -> None:
        """Let another process have the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def vhosts(self) -> dict[str, int]:
        """All of them, and where."""
        return dict(self._places)

    def worker_of(self, vhost: str) -> int:
        """NO_WORKER where there is no such virtual host."""
        return self._places.get(vhost, NO_WORKER)

    def of(self, worker: int) -> list[str]:
        """In the order in which they came."""
        return [name for name, place in self._places.items() if place == worker]

    async def add(self, vhost: str) -> int:
        """As `place`, where others may have to agree."""
        return self.place(vhost)

    async def spread(self) -> None:
        """Everybody knows of what was added when it returns."""

    async def drop(self, vhost: str) -> None:
        """As `forget`."""
        self.forget(vhost)

    def place(self, vhost: str) -> int:
        """Choose a worker for a new one, the one with the fewest, and remember it for good; one
        that is there stays. Raises: OperatorError, and then nothing has changed."""
        found = self.worker_of(vhost)
        if found != NO_WORKER:
            return found
        counts = [0] * self.count
        for worker in self._places.values():
            counts[worker] += 1
        worker = counts.index(min(counts))
        self.found(vhost, worker)
        return worker

    def found(self, vhost: str, worker: int) -> None:
        """It is at that worker. Raises: OperatorError, also where it is at another one."""
        there = self.worker_of(vhost)
        if there not in (NO_WORKER, worker):
            raise OperatorError(
                f"virtual host '{vhost}' is at worker {there} and at worker {worker} of "
                f"{self.data_dir}: move the directory of one of them away"
            )
        if there == NO_WORKER:
            self._write({**self._places, vhost: worker})

    def settle(self, configured: Iterable[str], is_single: bool) -> None:
        """Virtual hosts of the configuration have a place from now on. is_single: one broker alone
        has been at work here, whose they are. Raises: OperatorError."""
        for vhost in configured:
            if is_single:
                self.found(vhost, 0)
            else:
                self.place(vhost)

    def compare(self, there: list[list[str]]) -> None:
        """there: the virtual hosts that each worker has. One that nobody has was not made before a
        crash, or was deleted. Raises: OperatorError for one that two have."""
        for worker, names in enumerate(there):
            for name in names:
                self.found(name, worker)
        for name in self._places.keys() - {name for names in there for name in names}:
            self.forget(name)

    def forget(self, vhost: str) -> None:
        """It is no more. Raises: OperatorError, and then nothing has changed."""
        if vhost in self._places:
            self._write({name: at for name, at in self._places.items() if name != vhost})

    def _write(self, places: dict[str, int]) -> None:
        self._keep(places)
        self._places = places
        if self.changed is not None:
            self.changed()

    def _keep(self, places: dict[str, int]) -> None:
        if self.data_dir:
            path = Path(self.data_dir) / PLACES
            try:
                path.parent.mkdir(0o700, parents=True, exist_ok=True)
                write_whole(path, msgspec.json.encode(Stored(places)))
            except OSError as fault:
                raise OperatorError(f"{path} cannot be written: {fault.strerror}") from fault
