"""The first line of a run, which is there before anything that takes time to import."""

import os
import sys

import penstock


def first_line() -> str:
    """What runs, and on what."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    return f"penstock {penstock.__version__} · AMQP 0-9-1 · Python {python} · {cpu_text()}"


def cpu_text() -> str:
    """How many cores there are, since every rate depends on it."""
    count = os.cpu_count() or 1
    return f"{count} core{'s' if count > 1 else ''}"
