"""A command with a terminal of its own for its errors, as a person has it."""

import fcntl
import os
import pty
import struct
import termios
import threading
from subprocess import PIPE, Popen, TimeoutExpired

from tests.patience import PATIENCE_S

SIZE = (40, 120)


def on_terminal(*command: str, seconds_max: float = PATIENCE_S) -> tuple[int, str, str]:
    """Exit status, what was printed, and what was drawn on standard error, with every code of the
    terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    found: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 1 << 16):
                found.append(data)
        except OSError:
            # Linux says so when the other end is closed.
            return

    reader = threading.Thread(target=read)
    environment = {**os.environ, "TERM": "xterm-256color"}
    with Popen(command, stdout=PIPE, stderr=theirs, env=environment, encoding="utf-8") as process:
        os.close(theirs)
        reader.start()
        try:
            said, _ = process.communicate(timeout=seconds_max)
        except TimeoutExpired:
            process.kill()
            raise
    reader.join()
    os.close(ours)
    return process.returncode, said, b"".join(found).decode(errors="replace")
