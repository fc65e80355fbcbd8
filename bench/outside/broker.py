"""Starts one broker as a process of its own, asks it by its commands, and makes its disk slow.

Everything goes through what a user has: the commands, sockets, files. Owner: who made it, who calls
`stop` once.

    with LiveBroker(Path("/tmp/x"), 5801, "--profile", "penstock") as broker:
        answer = broker.why("publish", window_s=5)
"""

import json
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE, Popen
from types import TracebackType
from typing import Final, cast

from bench.outside.wire import Failed, Loop

CLI: Final = (sys.executable, "-m", "penstock.cli.main")
SOURCE: Final = Path(__file__).with_name("slow_sync.c")
START_S: Final = 60.0
COMMAND_S: Final = 60.0
SHARED: Final = struct.Struct("QQQQ")


def build_slow_sync(folder: Path) -> Path | None:
    """The library that makes a disk slow, built into `folder`; None where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "slow_sync.so"
    words = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    return library


class LiveBroker:
    """loop: served while a command runs, so that clients go on meanwhile, None for none.
    folder: for its data, settings and control socket; port: where it listens; options: of
    `penstock serve`; settings: lines of its TOML file. has_slow_sync: its disk can be made slow."""

    def __init__(
        self, folder: Path, port: int, *options: str, settings: str = "", is_in_memory: bool = False
    ) -> None:
        self.loop: Loop | None = None
        self.folder = folder
        self.port = port
        self.control = folder / "control.sock"
        config = folder / "penstock.toml"
        config.write_text(settings)
        env = dict(os.environ)
        library = None if is_in_memory else build_slow_sync(folder)
        self.has_slow_sync = library is not None
        self._shared = None
        if library is not None:
            shared = folder / "slow_sync"
            shared.write_bytes(bytes(SHARED.size))
            env |= {"LD_PRELOAD": str(library), "SLOW_SYNC": str(shared)}
            with shared.open("r+b") as file:
                self._shared = mmap.mmap(file.fileno(), SHARED.size)
        where = ["--memory"] if is_in_memory else ["--data", str(folder / "data")]
        words = [*CLI, "serve", "--port", str(port), "--config", str(config), *where]
        words += ["--control", str(self.control), *options]
        self.log = (folder / "broker.log").open("wb")
        self.process = subprocess.Popen(words, env=env, stdout=self.log, stderr=self.log)
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        end = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    text = (self.folder / "broker.log").read_text()
                    raise Failed(f"the broker did not start: {text[-2000:]}") from None
                time.sleep(0.05)
            else:
                return

    def __enter__(self) -> "LiveBroker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, the rough way if it does not go by itself."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        if self._shared is not None:
            self._shared.close()

    def make_loop(self) -> Loop:
        """What serves clients of it."""
        return Loop()

    # -- asking ----------------------------------------------------------------------------------

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `penstock WORDS` against it."""
        where = ["--port", str(self.port), "--control", str(self.control)]
        with Popen([*CLI, *words, *where], stdout=PIPE, stderr=PIPE, text=True) as process:
            if self.loop is not None:
                self.loop.run(COMMAND_S, lambda: process.poll() is not None)
            out, error = process.communicate(timeout=COMMAND_S)
        return subprocess.CompletedProcess(words, process.returncode, out, error)

    def why(self, *words: str, window_s: float) -> dict[str, object]:
        """What `penstock why WORDS` says, as data. Raises: Failed."""
        done = self.command("why", *words, "--window", str(window_s), "--format", "json")
        if done.returncode not in (0, 3):
            raise Failed(f"why {' '.join(words)}: {done.stdout}{done.stderr}")
        return cast(dict[str, object], json.loads(done.stdout))

    def why_text(self, *words: str, window_s: float) -> str:
        """The same as people read it."""
        return self.command("why", *words, "--window", str(window_s)).stdout

    def processor_s(self) -> float:
        """Seconds of processor time that its process has used, in all its threads."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    # -- its disk --------------------------------------------------------------------------------

    def slow_disk(self, seconds: float) -> None:
        """Every sync takes so much longer from now on."""
        assert self._shared is not None, "the disk can be made slow where there is a compiler"
        self._shared[:8] = struct.pack("Q", round(seconds * 1e9))

    def syncs(self) -> tuple[int, float]:
        """How many syncs there were, and seconds that all of them took."""
        assert self._shared is not None, "the disk is watched where there is a compiler"
        _, count, total_ns, _ = SHARED.unpack(self._shared[:])
        return count, total_ns / 1e9
