"""A backlog on Spark's own cluster of executors: how fast, and what its driver takes.

For `pipeline_growth.py`: each backlog is done by a process of its own, `pipeline_growth.py one`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from bench.cpu_share import NoShares, limited, throttled_s
from bench.pipeline import (
    BUCKET_NS,
    check,
    is_java,
    warm_session,
    worked_by,
)
from bench.pipeline_events import write_events
from penstock.spark.job.job import SparkJob

PROGRAM: Final = Path(__file__).with_name("pipeline_growth.py")
MB: Final = 1 << 20
LOOK_S: Final = 0.2
LOOK_SELDOM_S: Final = 2.0
"""A look goes over all processes of the machine, with the driver's part of it."""

RATIO_MIN: Final = 1.7

# -- memory ----------------------------------------------------------------------------------------


def memory(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """What the driver takes for backlogs of several sizes; each in a process of its own."""
    sizes = {}
    for number in options.sizes:
        write_events(place / f"in-{number}", number, options.shape)
        sizes[f"{number:,}"] = _child(options, place, f"in-{number}", options.cluster.format(2))
    return {"driver": sizes}


def _heap(spark: Any) -> dict[str, float]:
    """MB of the heap of the driver's JVM: the most of each of its pools, and what is alive now."""
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    pools = [one for one in beans.getMemoryPoolMXBeans() if str(one.getType()) == "Heap memory"]
    peak = sum(one.getPeakUsage().getUsed() for one in pools)
    beans.getMemoryMXBean().gc()
    alive = beans.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return {"heap_peak_mb": round(peak / MB), "heap_alive_mb": round(alive / MB)}


class Watch(threading.Thread):
    """The most memory that the driver's Python, its JVM, and the largest of all other processes
    below it have had."""

    def __init__(self, every_s: float) -> None:
        super().__init__(daemon=True)
        self._every_s = every_s
        self._is_over = threading.Event()
        self.most = {"python_mb": 0, "jvm_mb": 0, "others_largest_mb": 0}

    def run(self) -> None:
        """Until `stop`."""
        me = psutil.Process()
        while not self._is_over.wait(self._every_s):
            jvms = [one for one in me.children() if is_java(one)]
            known = {me.pid, *(one.pid for one in jvms)}
            others = [one for one in me.children(recursive=True) if one.pid not in known]
            for key, processes in (
                ("python_mb", [me]),
                ("jvm_mb", jvms),
                ("others_largest_mb", others),
            ):
                found = max((_resident(one) for one in processes), default=0) // MB
                self.most[key] = max(self.most[key], found)

    def stop(self) -> dict[str, int]:
        """MB."""
        self._is_over.set()
        self.join()
        return self.most


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


# -- executors -------------------------------------------------------------------------------------


def executors(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """One executor and two, in turns."""
    found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    with _first(options):
        write_events(place / "in", options.events, options.shape)
        for count in (1, 2, 2, 1)[: 2 if options.smoke else options.runs]:
            found[count].append(_child(options, place, "in", options.cluster.format(count)))
    rate = {
        count: statistics.mean(one["events_per_s"] for one in runs) for count, runs in found.items()
    }
    return {
        "events": options.events,
        "share": options.share,
        **{f"executors_{count}": runs for count, runs in found.items()},
        "ratio": round(rate[2] / rate[1], 2),
        "wanted": f"ratio at least {RATIO_MIN}",
        "is_met": rate[2] / rate[1] >= RATIO_MIN,
    }


@contextmanager
def _first(options: argparse.Namespace) -> Iterator[None]:
    """With shares this program and what it starts go before others. Where none can be given, a
    smoke run does without. Raises: SystemExit."""
    try:
        with limited([psutil.Process()] if options.share else [], 0.0):
            yield
    except NoShares as fault:
        if not options.smoke:
            raise SystemExit(str(fault)) from fault
        print(f"executors are not limited: {fault}")
        options.share = 0.0
        yield


def _child(options: argparse.Namespace, place: Path, name: str, master: str) -> dict[str, Any]:
    """One backlog in a process of its own."""
    words = ["one", "--input", str(place / name), "--master", master]
    words += ["--pinned"] if options.pinned else []
    if options.share:
        words += ["--share", str(options.share), "--warm-up", str(options.warm_up)]
    asked = subprocess.run(
        [sys.executable, str(PROGRAM), *words], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise SystemExit(asked.stdout + asked.stderr)
    found: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    print(f"{name} on {master}: {found}", flush=True)
    return found


def one(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """A backlog, how fast, and what the driver takes."""
    with _session(options, place) as (spark, groups):
        watch = Watch(LOOK_SELDOM_S if options.share else LOOK_S)
        watch.start()
        job = SparkJob(spark, Path(options.input), place / "tables", BUCKET_NS)
        waited_s = [throttled_s(group) for group in groups]
        began_s, before = time.perf_counter(), worked_by()
        job.update()
        took_s, after = time.perf_counter() - began_s, worked_by()
        waited_s = [throttled_s(group) - was for group, was in zip(groups, waited_s, strict=True)]
        worked = {name: spent - before[name] for name, spent in after.items()}
        most = watch.stop() | _heap(spark)
        count = check(job, 0)
    found: dict[str, Any] = {
        "events": count,
        "seconds": round(took_s, 1),
        "events_per_s": round(count / took_s),
        "processor_us_per_event": round(sum(worked.values()) / count * 1e6, 1),
        "of_it": {name: round(spent / count * 1e6, 2) for name, spent in worked.items()},
        **most,
        "load": round(os.getloadavg()[0], 1),
    }
    if groups:
        given_s = took_s * options.share * len(groups)
        used_s = worked["executor_jvms"] + worked["python_workers"]
        found["share_used"] = round(used_s / given_s, 2)
        found["waited_for_share_s"] = [round(one, 1) for one in waited_s]
    return found


@contextmanager
def _session(options: argparse.Namespace, place: Path) -> Iterator[tuple[Any, list[Path]]]:
    """A session whose executors have what they may have of processors; their groups, where they
    have some. With shares the driver goes before other programs as well, from its start on."""
    me = psutil.Process()
    if not options.share:
        with warm_session(place, options.master) as spark:
            if options.pinned:
                pin_executors()
            yield spark, []
        return
    with (
        limited([me], 0.0),
        warm_session(place, options.master, options.warm_up) as spark,
        limited(executors_of(me), options.share) as groups,
    ):
        yield spark, groups


def executors_of(me: psutil.Process) -> list[psutil.Process]:
    """Those of `local-cluster`, in the order of their ids."""
    drivers = [one for one in me.children() if is_java(one)]
    found = [one for driver in drivers for one in driver.children() if is_java(one)]
    return sorted(found, key=_pid)


def _pid(process: psutil.Process) -> int:
    return process.pid


def pin_executors() -> None:
    """Each executor of `local-cluster`, with its Python workers, to a processor of its own. Spark
    counts a task as one core, and its JVM and its Python work at the same time."""
    processors = sorted(os.sched_getaffinity(0))
    for number, executor in enumerate(executors_of(psutil.Process())):
        for process in (executor, *executor.children(recursive=True)):
            # Every thread by itself; those that come are where their makers are.
            for thread in process.threads():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, {processors[number % len(processors)]})
