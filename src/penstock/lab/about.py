"""What a reader of results must know of the machine and the versions that made them."""

import os
import platform
from datetime import UTC, datetime

import penstock
from penstock.broker.queue import queue_actor


def about(took_s: float) -> dict[str, object]:
    """took_s: seconds the whole lab took."""
    is_compiled = not queue_actor.__file__.endswith(".py")
    return {
        "penstock": penstock.__version__,
        "build": "compiled" if is_compiled else "interpreted",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count(),
        "processor": _processor(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
