"""A thread for the jobs of a member's disk."""

import asyncio
import threading

from penstock.server.cluster.disk_worker import DiskWorker


async def test_jobs_are_done_in_order_elsewhere_and_their_ends_told_on_the_loop() -> None:
    worker = DiskWorker("test-disk")
    told: list[tuple[str, Exception | None, int]] = []
    done: list[str] = []
    threads: set[int] = set()
    here = threading.get_ident()

    def job(name: str) -> None:
        done.append(name)
        threads.add(threading.get_ident())
        if name == "b":
            raise OSError(5, "a fault")

    def then(name: str, fault: Exception | None) -> None:
        told.append((name, fault, threading.get_ident()))

    for name in ("a", "b", "c"):
        worker.submit(lambda name=name: job(name), lambda fault, name=name: then(name, fault))  # type: ignore[misc]
    await asyncio.get_running_loop().run_in_executor(None, worker.close)
    assert done == ["a", "b", "c"] and here not in threads and len(threads) == 1
    await asyncio.sleep(0)
    assert [name for name, _, _ in told] == ["a", "b", "c"]
    assert {thread for _, _, thread in told} == {here}
    assert told[0][1] is None and isinstance(told[1][1], OSError) and told[2][1] is None
