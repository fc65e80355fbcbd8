"""The age of a process, whatever the time of day is."""

import subprocess
import sys
import time

QUESTION = (
    "import time; began = time.monotonic(); "
    "from penstock.server.machine.machine import process_age_s; "
    "time.sleep(0.3); print(process_age_s(), time.monotonic() - began)"
)


def test_it_counts_from_the_start_of_the_process() -> None:
    """At least what the program itself has seen pass, at most what its parent has."""
    began = time.monotonic()
    said = subprocess.run(
        [sys.executable, "-c", QUESTION], capture_output=True, text=True, check=True
    ).stdout
    outside_s = time.monotonic() - began
    age_s, inside_s = (float(word) for word in said.split())
    # The start is known to a clock tick of 10 ms.
    assert inside_s - 0.02 <= age_s <= outside_s + 0.02
