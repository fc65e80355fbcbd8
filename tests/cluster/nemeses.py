"""Nodes and etcds in networks of their own, with disks and clocks of their own, real clients of a
queue, a quorum queue, a mirrored one, a stream, and a queue that nobody takes from before the end,
and one trouble after the other, by a seed.

    python -m tests.cluster.nemeses --seconds 180 --seed 1
    python -m tests.cluster.nemeses --seconds 180 --kinds cut_leader,flap
    python -m tests.cluster.nemeses --seconds 180 --alone 3     # the third kind, and no other
    python -m tests.cluster.nemeses --seconds 180 --nodes 5
    python -m tests.cluster.nemeses --seconds 180 --cores 2     # two shards, and clients of both

Exit status 1 when anything was lost, invented, out of order, or did not come back, or when the
directories of the nodes are not the same in the end. Histories and logs stay in the directory that
is printed then. Needs root, iproute2, loop devices, a C compiler, and an etcd.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# Run as a program the directory above is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from penstock.demo.cluster_rig import ClusterRig
from tests.cluster.load import Load, await_same, command
from tests.cluster.machines import Machines
from tests.cluster.namespaces import Namespaces, may_make_networks
from tests.cluster.nemesis import KINDS, Nemesis
from tests.cluster.shard_nemesis import SHARD_KINDS, VHOSTS, ShardNemesis

REST_S: Final = (1.0, 4.0)


def loads_of(rig: ClusterRig) -> list[Load]:
    """Of every sort; with shards of the sorts that differ, in two virtual hosts."""
    if rig.cores == 1:
        return [
            Load(rig, "mirrored-queue", is_stream=False, window=20),
            Load(rig, "storm-queue", is_stream=False, window=20),
            Load(rig, "quorum-queue", is_stream=False, window=20, kind="quorum"),
            Load(rig, "storm-stream", is_stream=True, window=20),
        ]
    found: list[Load] = []
    for vhost, name in zip(VHOSTS, ("first", "second"), strict=True):
        found += [
            Load(rig, f"mirrored-{name}", is_stream=False, window=20, vhost=vhost),
            Load(rig, f"quorum-{name}", is_stream=False, window=20, kind="quorum", vhost=vhost),
            Load(rig, f"stream-{name}", is_stream=True, window=20, vhost=vhost),
        ]
    return found


def storm(nemesis: Nemesis, seed: int, seconds: float, kinds: Sequence[str]) -> None:
    """Raises: AssertionError, OperatorError."""
    rig, chance = nemesis.rig, nemesis.chance
    counts: Counter[str] = Counter()
    for vhost in VHOSTS[: rig.cores]:
        mirrored = ("policies", "set", "ha", "^mirrored", '{"ha-mode": "all"}')
        command(rig, nemesis.await_led(), *mirrored, "--vhost", vhost)
    loads = loads_of(rig)
    nemesis.loads = loads
    # Nobody takes these before the end, so the files in which others are settled stay, too.
    resting = Load(rig, "resting-queue", is_stream=False, window=20, size=400)
    resting.publisher.start()
    for load in loads:
        load.publisher.start()
        load.consumer.start()
    for load in loads:
        load.await_confirms(20)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = chance.choice(kinds)
        getattr(nemesis, kind)()
        counts[kind] += 1
        nemesis.await_whole()
        nemesis.say(f"all is well again, {nemesis.leads()}")
        for load in loads:
            load.await_confirms(5)
        time.sleep(chance.uniform(*REST_S))
    for load in loads:
        load.finish()
        longest = load.publisher.longest_gap_s(0.0)
        nemesis.say(f"{load.queue}: the longest pause of confirms was {longest:.1f} s")
    resting.publisher.stop()
    await_same(rig)
    resting.consumer.start()
    resting.finish()
    print(f"seed {seed}: {dict(counts)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="", help="with commas between them; all of them")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--etcds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=1, choices=(1, 2))
    text = f"1..{len(KINDS)}, with --cores 2 1..{len(SHARD_KINDS)}"
    parser.add_argument("--alone", type=int, default=0, help=text)
    asked = parser.parse_args()
    there = KINDS if asked.cores == 1 else SHARD_KINDS
    kinds = asked.kinds.split(",") if asked.kinds else there
    if asked.alone:
        kinds = there[asked.alone - 1 : asked.alone]
    if not may_make_networks():
        print("needs root and `ip netns` (iproute2)")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="penstock-storm-"))
    names = "abcdefg"[: asked.nodes]
    rig = ClusterRig(folder, names, etcd_count=asked.etcds, cores=asked.cores)
    spaces = Namespaces(rig, os.getpid() % 256)
    machines = Machines(rig)
    try:
        machines.open()
        rig.start_etcd()
        for name in rig.nodes:
            rig.start(name)
        made = Nemesis if asked.cores == 1 else ShardNemesis
        nemesis = made(rig, spaces, machines, random.Random(asked.seed))
        nemesis.begin()
        storm(nemesis, asked.seed, asked.seconds, kinds)
    except BaseException:
        print(f"logs and histories: {folder}")
        raise
    finally:
        spaces.heal()
        rig.close()
        spaces.close()
        machines.close()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
