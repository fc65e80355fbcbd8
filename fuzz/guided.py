"""Fuzz one target with an eye on which lines its inputs reach; needs atheris (`make fuzz-guided`).

    python fuzz/guided.py control --runs 5000000      that many executions, or until one fails
    python fuzz/guided.py log --seconds 60

Inputs that reached something new are in fuzz/kept/TARGET.txt, a line of hexadecimal digits each;
`--keep` puts new ones there. The suite runs all of them (tests/property/test_fuzz_corpus.py). A
failure prints its input, and ends with a status that is not 0.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

with atheris.instrument_imports(include=["penstock"]):
    from fuzz.corpus import kept_in, path_of, write_kept
    from fuzz.targets import TARGETS

INPUT_BYTES = 600
INPUT_S = 20


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz one target, guided by coverage.")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=int, default=-1, help="executions")
    parser.add_argument("--seconds", type=int, default=0, help="0 for no bound")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="what reached something new")
    options = parser.parse_args()
    target = TARGETS[options.target]
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(kept_in(path_of(options.target))):
            (Path(folder) / str(number)).write_bytes(data)
        words = [
            sys.argv[0], folder, f"-runs={options.runs}", f"-seed={options.seed}",
            f"-max_total_time={options.seconds}", f"-max_len={INPUT_BYTES}",
            f"-timeout={INPUT_S}", "-reduce_inputs=1", "-print_final_stats=1",
            f"-artifact_prefix={folder}/",
        ]  # fmt: skip
        atheris.Setup(words, target)
        # The library ends the process itself, so that what it found is kept by another one.
        if os.fork() == 0:
            atheris.Fuzz()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.wait()[1])
        failed = sorted(Path(folder).glob("crash-*")) + sorted(Path(folder).glob("timeout-*"))
        for path in failed:
            print(f"replay: python fuzz/corpus.py {options.target} {path.read_bytes().hex()}")
            path.unlink()
        if options.keep and not failed:
            write_kept(options.target, [one.read_bytes() for one in Path(folder).iterdir()])
    sys.exit(status)


if __name__ == "__main__":
    main()
