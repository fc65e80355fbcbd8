"""Bytes of memory that a queued transient message takes, by the size of its body.

python -m bench.message_bytes                      bodies of 16 B and 1 KiB, 40,000 messages each
python -m bench.message_bytes --sizes 16 --count 50000

A broker in memory with one queue and one publisher to it, in this process; each size is measured in
a process of its own. rss: by how much the resident memory grew; traced: the same by tracemalloc,
for a quarter of the messages, because it is slow. The first line says which build was measured: the
compiled one takes less.
"""

import gc
import subprocess
import sys
import tracemalloc
from argparse import ArgumentParser
from pathlib import Path

from bench.call_walk import Bed
from penstock.broker.actors import actor
from penstock.protocol import methods as m
from penstock.protocol.content import make_content
from penstock.protocol.methods.codec import method_frame
from scripts.show_build import is_compiled

BATCH = 100
ROOT = Path(__file__).resolve().parent.parent


def resident_bytes() -> int:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def publish(size: int) -> bytes:
    """One transient basic.publish without properties to the queue `memory`."""
    method = method_frame(1, m.BasicPublish("", "memory"))
    header = b"\0\x3c\0\0" + size.to_bytes(8, "big") + b"\0\0"
    return method + make_content(1, b"", header, b"x" * size, 131_072).raw


def measure(size: int, count: int, is_traced: bool) -> float:
    """Bytes that each of `count` messages with a body of `size` bytes takes."""
    bed = Bed()
    bed.say(bed.publisher, method_frame(1, m.QueueDeclare("memory")))
    data = publish(size)
    bed.say(bed.publisher, data * BATCH)
    gc.collect()
    if is_traced:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
    else:
        before = resident_bytes()
    for _ in range(count // BATCH):
        bed.say(bed.publisher, data * BATCH)
        bed.outputs[bed.publisher].sent.clear()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if is_traced else resident_bytes()
    queue = bed.broker.vhosts["/"].queues["memory"]
    assert queue.messages.ready_count() == count + BATCH
    return (after - before) / count


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 1024])
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--one", choices=("rss", "traced"), help="measure one size, in here")
    options = parser.parse_args()
    if options.one is not None:
        print(f"{measure(options.sizes[0], options.count, options.one == 'traced'):.1f}")
        return
    print("compiled" if is_compiled(actor.__name__) else "interpreted")
    for size in options.sizes:
        found = {}
        for how, count in (("rss", options.count), ("traced", options.count // 4)):
            arguments = ["--one", how, "--sizes", str(size), "--count", str(count)]
            command = [sys.executable, "-m", "bench.message_bytes", *arguments]
            found[how] = subprocess.run(
                command, cwd=ROOT, check=True, capture_output=True, text=True
            ).stdout.strip()
        print(f"body of {size} B: {found['rss']} B rss, {found['traced']} B traced")


if __name__ == "__main__":
    main()
