"""A disk and a clock of its own for each node of a cluster.

The disk is an ext4 in a file, mounted over a loop device: it fills up, stands still, and loses what
was not synced, when the machine says that it was started anew. The clock is wrong by what a file
says (clock.c). Needs root and a C compiler.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from penstock.demo.cluster_rig import ClusterRig
from tests.crash.mounts import CutDisk, NoMount, shared_mounts

MEGABYTES: Final = 1024
CLOCK: Final = Path(__file__).with_name("clock.c")
FILLER: Final = "filler"
BOOT: Final = "/proc/sys/kernel/random/boot_id"
WITH_BOOT: Final = ("sh", "-c", f'mount --bind "$0" {BOOT} && exec "$@"')
"""A command with a file that says which start of the machine it is, in a mount namespace of its
own, as whoever is in a network of its own has one."""


class Machines:
    """Of the nodes of `rig`, which are not started yet and whose prefixes are known."""

    def __init__(self, rig: ClusterRig) -> None:
        self.rig = rig
        self.disks: dict[str, CutDisk] = {}
        self.clock_so = rig.folder / "clock.so"
        self.mounts = ExitStack()

    def open(self) -> None:
        """Raises: NoMount; CalledProcessError."""
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self.clock_so), str(CLOCK), "-ldl"]
        subprocess.run(command, check=True)
        # A network of its own comes with a mount namespace of its own, which would keep a disk that
        # was cut off, and what is mounted again would be that one.
        self.mounts.enter_context(shared_mounts(self.rig.folder))
        for name, node in self.rig.nodes.items():
            folder = self.rig.folder / f"machine-{name}"
            folder.mkdir()
            self.disks[name] = CutDisk(folder, MEGABYTES)
            node.data = self.disks[name].path / "data"
            self.set_clock(name, 0)
            self._start_machine(name)
            clock = f"PENSTOCK_CLOCK={self._clock(name)}"
            node.prefix = (*node.prefix, *WITH_BOOT, str(self._boot(name)))
            node.prefix = (*node.prefix, "env", f"LD_PRELOAD={self.clock_so}", clock)

    def close(self) -> None:
        """The nodes have ended."""
        for disk in self.disks.values():
            with suppress(NoMount):
                disk.thaw()
            with suppress(NoMount):
                disk.unmount()
        with suppress(NoMount):
            self.mounts.close()

    # -- disks -------------------------------------------------------------------------------------

    def cut_power(self, name: str) -> None:
        self.disks[name].cut()
        self.rig.kill(name)
        self.disks[name].unmount()

    def _boot(self, name: str) -> Path:
        return self.rig.folder / f"machine-{name}" / "boot"

    def _start_machine(self, name: str) -> None:
        self._boot(name).write_text(f"{uuid4()}\n")

    def boot(self, name: str) -> None:
        self._start_machine(name)
        self.disks[name].mount()
        self.rig.start(name)

    def fill(self, name: str) -> None:
        """To the last byte, and again where something was given back meanwhile."""
        path = self.disks[name].path / FILLER
        with path.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        file.write(b"x" * size)
            os.fsync(file.fileno())

    def empty(self, name: str) -> None:
        (self.disks[name].path / FILLER).unlink()

    def revive(self) -> list[str]:
        """Start whoever has ended; their names."""
        ended = [
            name
            for name, node in self.rig.nodes.items()
            if node.process is not None and node.process.poll() is not None
        ]
        for name in ended:
            self.rig.kill(name)
            self.rig.start(name)
        return ended

    def last_words(self, name: str) -> str:
        lines = self.rig.nodes[name].log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing"

    @contextmanager
    def stalled(self, name: str) -> Iterator[None]:
        self.disks[name].freeze()
        try:
            yield
        finally:
            self.disks[name].thaw()

    # -- clocks ------------------------------------------------------------------------------------

    def _clock(self, name: str) -> Path:
        return self.rig.folder / f"machine-{name}" / "clock"

    def set_clock(self, name: str, hours: int) -> None:
        """So far from the machine's."""
        self._clock(name).write_text(f"{hours * 3600}\n")
