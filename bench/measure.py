"""Build the load generator and run it once against one broker; hand back its numbers, typed."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.brokers import Broker

SOURCES: Final = Path(__file__).resolve().parent
COMPILER_MISSING: Final = "the load generator is C: install gcc (apt-get install gcc libc6-dev)"
# What a generator needs that speaks TLS (Debian: libssl-dev).
WITH_TLS: Final = ("-DTLS", "-lssl", "-lcrypto")
# Setting up, draining a backlog and deleting queues, on top of the measured time.
OVERHEAD_SECONDS_MAX: Final = 90.0
# Content of a message in the rows that sync.
PROBE_BYTES: Final = 1024


class RunFailed(Exception):
    """The generator could not finish: what it said, in one line."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of the generator. Times in microseconds, memory in MiB, rates per second; sync_us:
    median and 99th percentile of one fdatasync on this disk just before, 0 where nothing syncs;
    ideal_us: those of a confirm, by a program that only writes and syncs at the row's rate, 0 where
    it was not asked."""

    rate: float
    publish_rate: float
    cpu_us: float
    kernel_share: float
    latency_us: tuple[float, float, float]
    confirm_us: tuple[float, float, float]
    held_share: float
    generator_share: float
    rss_before_mb: float
    rss_max_mb: float
    seconds: float
    sent: int
    confirmed: int
    got: int
    body_bytes: int
    lost: int
    wrong: int
    altered: int
    disorder: int
    nacks: int
    per_consumer: tuple[int, ...]
    load_average: float
    series: tuple[dict[str, float], ...] = ()
    sync_us: tuple[float, float] = (0.0, 0.0)
    ideal_us: tuple[float, float] = (0.0, 0.0)


def build_generator(tls: bool = False) -> Path:
    """Compile the generator, and the disk's probe and the relay beside it, into a new temporary
    directory; `forget_generator` removes it. tls: one that speaks TLS too, which needs OpenSSL's
    headers.

    Raises: RunFailed without a compiler, or when it refuses.
    """
    program = Path(tempfile.mkdtemp(prefix="loadgen-")) / "loadgen"
    try:
        compile_c(SOURCES / "loadgen.c", program, WITH_TLS if tls else ())
        compile_c(SOURCES / "sync_probe.c", probe_beside(program))
        compile_c(SOURCES / "limit.c", limit_beside(program), ("-pthread",))
    except RunFailed:
        forget_generator(program)
        raise
    return program


def probe_beside(program: Path) -> Path:
    """The probe of the disk that was built together with a generator."""
    return program.with_name("sync_probe")


def limit_beside(program: Path) -> Path:
    """The relay that was built together with a generator."""
    return program.with_name("limit")


def compile_c(source: Path, program: Path, options: Sequence[str] = ()) -> None:
    """Compile one file, with more options for the compiler.

    Raises: RunFailed without a compiler, or when it refuses.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RunFailed(COMPILER_MISSING)
    built = subprocess.run(
        [compiler, "-O2", "-o", str(program), str(source), "-lm", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise RunFailed(f"{compiler} refused {source.name}:\n{built.stderr[-2000:]}")


def forget_generator(program: Path) -> None:
    """Delete what `build_generator` made."""
    shutil.rmtree(program.parent, ignore_errors=True)


def triple(values: dict[str, float]) -> tuple[float, float, float]:
    """The three percentiles of a generator result."""
    return (values["p50"], values["p99"], values["p999"])


def parse_sample(line: str, series: Sequence[dict[str, float]] = ()) -> Sample:
    """Read the generator's result line.

    Raises: RunFailed when it is not one.
    """
    try:
        found = json.loads(line)
        seconds = float(found["secs"])
        cpu_s = float(found["broker_cpu"])
        return Sample(
            rate=float(found["got_rate"]),
            publish_rate=float(found["pub_rate"]),
            cpu_us=float(found["cpu_s_per_M"]),
            kernel_share=float(found["broker_sys"]) / cpu_s if cpu_s > 0 else 0.0,
            latency_us=triple(found["lat_us"]),
            confirm_us=triple(found["conf_us"]),
            held_share=float(found["held_share"]),
            generator_share=float(found["gen_cpu"]) / seconds if seconds > 0 else 0.0,
            rss_before_mb=float(found["rss0_mb"]),
            rss_max_mb=float(found["rssmax_mb"]),
            seconds=seconds,
            **{name: int(found[name]) for name in COUNTS},
            per_consumer=tuple(int(count) for count in found["per_consumer"]),
            load_average=os.getloadavg()[0],
            series=tuple(series),
            sync_us=(0.0, 0.0),
            ideal_us=(0.0, 0.0),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RunFailed(f"the generator's last line is not a result: {line[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class Probe:
    """What the disk says of itself: sync_us, ideal_us as in `Sample`."""

    sync_us: tuple[float, float] = (0.0, 0.0)
    ideal_us: tuple[float, float] = (0.0, 0.0)


def probe_sync(program: Path, milliseconds: float, rate: float = 0.0) -> Probe:
    """How long one fdatasync of a kilobyte takes where the brokers keep their data; and, with a
    rate, how long a confirm of a kilobyte would take at least. program: the generator.

    Raises: RunFailed.
    """
    command = [str(probe_beside(program)), tempfile.gettempdir(), str(milliseconds)]
    if rate > 0:
        command += [str(PROBE_BYTES), f"{rate:.0f}"]
    lines = run_lines(command, OVERHEAD_SECONDS_MAX, always)
    try:
        found = json.loads(lines[-1])
        ideal = [float(found.get(f"ideal_{name}_us", 0.0)) for name in ("p50", "p99")]
        return Probe((float(found["p50_us"]), float(found["p99_us"])), (ideal[0], ideal[1]))
    except (IndexError, ValueError, KeyError) as error:
        raise RunFailed("the last line of the disk's probe is not a result") from error


COUNTS: Final = (
    *("sent", "confirmed", "got", "body_bytes", "lost"),
    *("wrong", "altered", "disorder", "nacks"),
)


def generator_command(program: Path, broker: Broker, options: Sequence[str]) -> list[str]:
    """The generator's command line against `broker`."""
    command = [str(program), "-H", broker.host, "-p", str(broker.port)]
    command += ["--user", broker.user, "--pass", broker.password]
    if broker.is_tls:
        command.append("--tls")
    if broker.queue_type:
        command += ["--queue-type", broker.queue_type]
    for pid in broker.pids:
        command += ["--pid", str(pid)]
    return [*command, *options]


def run_lines(
    command: Sequence[str], seconds_max: float, watch: Callable[[dict[str, float]], bool]
) -> list[str]:
    """Run the generator, giving each series line to `watch`; stop it when that says False.

    Returns all lines; stopped early, the series lines only.
    Raises: RunFailed on another exit code than 0, or after `seconds_max`.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None and process.stderr is not None, "both are pipes"
    alarm = threading.Timer(seconds_max, process.kill)
    alarm.start()
    lines: list[str] = []
    is_stopped = False
    try:
        for line in process.stdout:
            lines.append(line)
            if not is_stopped and line.startswith('{"t"') and not watch(json.loads(line)):
                is_stopped = True
                process.kill()
        said = process.stderr.read().strip()
        code = process.wait()
    finally:
        alarm.cancel()
        process.stdout.close()
        process.stderr.close()
    if code != 0 and not is_stopped:
        late = f" (stopped after {seconds_max:.0f} s)" if code < 0 else ""
        raise RunFailed(f"exit code {code}{late}: {said or 'no message'}")
    return lines


def always(_point: dict[str, float]) -> bool:
    """A watch that never stops the run."""
    return True


def run_once(program: Path, broker: Broker, options: Sequence[str], seconds: float) -> Sample:
    """Run the generator once; `seconds` is what warm-up and measuring take.

    Raises: RunFailed.
    """
    command = generator_command(program, broker, options)
    lines = run_lines(command, seconds + OVERHEAD_SECONDS_MAX, always)
    return parse_sample(lines[-1] if lines else "")


def run_idle(program: Path, broker: Broker, connections: int) -> dict[str, float]:
    """Open idle connections; bytes_per_connection, cpu_us_per_connection and secs.

    Raises: RunFailed.
    """
    command = generator_command(program, broker, ("--idle", str(connections)))
    lines = run_lines(command, OVERHEAD_SECONDS_MAX, always)
    try:
        found = json.loads(lines[-1])
        names = ("bytes_per_connection", "cpu_us_per_connection", "secs")
        return {name: float(found[name]) for name in names}
    except (IndexError, ValueError, KeyError) as error:
        raise RunFailed("the generator's last line is not a result") from error
