"""How long this process has lived, so that "ready in" counts from its very start."""

import time

import psutil


def process_age_s() -> float:
    """Seconds since the process was created; 0.0 where the system does not say."""
    try:
        return max(0.0, time.time() - psutil.Process().create_time())
    except (psutil.Error, OSError):
        return 0.0
