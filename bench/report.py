"""Turn samples into medians, spreads, paired ratios and verdicts, as text and as JSON values."""

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench.brokers import LIMIT, Target
from bench.measure import Sample
from bench.workloads import (
    Workload,
    at_pace,
    bounds_of,
    resource_bounds_of,
    verdict,
)

# By repeat; None where that run failed. Pairs of the same index ran one after the other.
Samples = list[Sample | None]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of some numbers."""

    median: float
    low: float
    high: float


def spread_of(values: Sequence[float]) -> Spread:
    """Median and range of at least one number."""
    return Spread(statistics.median(values), min(values), max(values))


def short(value: float) -> str:
    """A rate or a count in at most five characters: 950, 12.3k, 4.56M."""
    if value < 1000:
        return f"{value:.0f}"
    scale, unit = (1e3, "k") if value < 999_500 else (1e6, "M")
    scaled = value / scale
    return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.3g}{unit}"


def duration(us: float) -> str:
    """Microseconds in the unit a reader wants: 85us, 1.2ms, 3.4s."""
    if us < 1000:
        return f"{us:.0f}us"
    return f"{us / 1e3:.3g}ms" if us < 1e6 else f"{us / 1e6:.3g}s"


def done(samples: Samples) -> list[Sample]:
    """The runs that ended well."""
    return [sample for sample in samples if sample is not None]


def medians(samples: Sequence[Sample]) -> dict[str, float]:
    """The numbers the bounds of `workloads` speak of, and the rest of the table, as medians."""

    def of(values: Sequence[float]) -> float:
        return statistics.median(values)

    values = {
        "rate": of([sample.rate for sample in samples]),
        "kernel_share": of([sample.kernel_share for sample in samples]),
        "held_share": of([sample.held_share for sample in samples]),
        "generator_share": of([sample.generator_share for sample in samples]),
        "rss_max_mb": of([sample.rss_max_mb for sample in samples]),
    }
    if any(sample.cpu_us > 0 for sample in samples):
        values["cpu_us"] = of([sample.cpu_us for sample in samples])
    for index, name in enumerate(("p50_us", "p99_us", "p999_us")):
        values[name] = of([sample.latency_us[index] for sample in samples])
        values[f"confirm_{name}"] = of([sample.confirm_us[index] for sample in samples])
    synced = [sample for sample in samples if sample.sync_us[0] > 0]
    if synced:
        values["sync_p50_us"] = of([sample.sync_us[0] for sample in synced])
        values["sync_p99_us"] = of([sample.sync_us[1] for sample in synced])
        for index, name in enumerate(("p50", "p99")):
            values[f"confirm_{name}_syncs"] = of(
                [sample.confirm_us[index] / sample.sync_us[0] for sample in synced]
            )
    ideal = [sample for sample in samples if sample.ideal_us[0] > 0]
    for index, name in enumerate(("p50", "p99")):
        if ideal:
            values[f"ideal_{name}_us"] = of([sample.ideal_us[index] for sample in ideal])
    return values


def ratios(ours: Samples, theirs: Samples) -> dict[str, Spread]:
    """Paired ratios, run by run; above 1 is better than the rival."""
    pairs = [(our, their) for our, their in zip(ours, theirs, strict=True) if our and their]
    found: dict[str, Spread] = {}
    rates = [our.rate / their.rate for our, their in pairs if their.rate > 0]
    if rates:
        found["rate_ratio"] = spread_of(rates)
    costs = [their.cpu_us / our.cpu_us for our, their in pairs if our.cpu_us and their.cpu_us]
    if costs:
        found["cpu_ratio"] = spread_of(costs)
    delays = [their.latency_us[0] / our.latency_us[0] for our, their in pairs if our.latency_us[0]]
    if delays:
        found["p50_ratio"] = spread_of(delays)
    return found


def row_text(name: str, samples: Samples) -> str:
    """One line of the table: a target's medians, range of the rate, latencies, shares."""
    good = done(samples)
    if not good:
        return f"  {name:<18} every run failed"
    values, rates = medians(good), spread_of([sample.rate for sample in good])
    cpu = f"{values['cpu_us']:.3g}" if "cpu_us" in values else "?"
    delivery = "/".join(duration(values[key]) for key in ("p50_us", "p99_us", "p999_us"))
    confirm = "-"
    if values["confirm_p50_us"] > 0:
        confirm = "/".join(duration(values[f"confirm_{key}"]) for key in ("p50_us", "p99_us"))
    if "sync_p50_us" in values:
        syncs = "/".join(f"{values[f'confirm_{key}_syncs']:.3g}" for key in ("p50", "p99"))
        sync = "/".join(duration(values[f"sync_{key}_us"]) for key in ("p50", "p99"))
        confirm += f" = {syncs} syncs of {sync}"
    if "ideal_p50_us" in values:
        least = "/".join(duration(values[f"ideal_{key}_us"]) for key in ("p50", "p99"))
        confirm += f", at least {least}"
    lost = sum(sample.lost + sample.wrong + sample.disorder + sample.nacks for sample in good)
    return (
        f"  {name:<18} {short(rates.median):>6}/s ({short(rates.low)}-{short(rates.high)})"
        f"  cpu {cpu:>5} us/msg (kernel {values['kernel_share']:.0%})"
        f"  delivery {delivery}  confirm {confirm}"
        f"  held {values['held_share']:.0%}  gen {values['generator_share']:.0%}"
        f"  rss {values['rss_max_mb']:.0f}M{f'  LOST OR WRONG {lost}' if lost else ''}"
    )


def ratio_text(found: Mapping[str, Spread]) -> str:
    """Paired ratios: median and range."""
    names = (("rate_ratio", "rate"), ("cpu_ratio", "cpu"), ("p50_ratio", "p50"))
    return "  ".join(
        f"{word} {found[key].median:.3g}x ({found[key].low:.3g}-{found[key].high:.3g})"
        for key, word in names
        if key in found
    )


def share_text(workload: Workload, found: Mapping[str, Spread], is_compiled: bool) -> str:
    """Paired shares of what the relay reached; of a compiled broker, whether the goal is."""
    names = (("rate_ratio", "rate"), ("cpu_ratio", "processor time"))
    parts = [
        f"{word} {found[key].median:.2f} ({found[key].low:.2f}-{found[key].high:.2f})"
        for key, word in names
        if key in found and (key != "rate_ratio" or not workload.is_paced)
    ]
    rate = found["rate_ratio"].median if "rate_ratio" in found else 0.0
    if workload.limit_goal and is_compiled:
        word = "reached" if rate >= workload.limit_goal else "missed"
        parts.append(f"goal {workload.limit_goal:.2f} {word}")
    return ", ".join(parts)


def takes_part(target: Target, workload: Workload) -> bool:
    """Whether `target` is measured in this row: a kind of queues only where messages are kept, the
    relay where it knows what is sent."""
    if target.kind == LIMIT:
        return workload.has_limit
    return not target.queue_type or workload.is_persistent


def slowness_of(
    workload: Workload, targets: Sequence[Target], results: Mapping[str, Samples]
) -> float:
    """RabbitMQ's processor time in this run as a multiple of what it took where the bounds were
    written; 0 where either is not known."""
    for target in targets:
        good = done(results[target.name])
        if target.kind == "rabbitmq" and not target.queue_type and good:
            return medians(good).get("cpu_us", 0.0) / (workload.reference_us or float("inf"))
    return 0.0


def workload_report(
    workload: Workload, targets: Sequence[Target], results: Mapping[str, Samples]
) -> tuple[list[str], dict[str, object]]:
    """The lines and the JSON values of one row."""
    lines = [f"{workload.name}: {workload.question}"]
    targets = [target for target in targets if takes_part(target, workload)]
    values: dict[str, object] = {"question": workload.question}
    for target in targets:
        lines.append(row_text(target.name, results[target.name]))
    for target in targets:
        samples = results[target.name]
        good = done(samples)
        entry: dict[str, object] = {
            "runs": [asdict(sample) if sample else None for sample in samples],
            "median": medians(good) if good else None,
        }
        values[target.name] = entry
        if target.kind != "penstock" or not good:
            continue
        judged: dict[str, float] = medians(good)
        compared: dict[str, object] = {}
        for rival in targets:
            # Of our own two builds, the compiled one is shown against the other, once.
            is_own = rival.kind == "penstock" and not target.is_compiled
            found = {} if is_own or rival == target else ratios(samples, results[rival.name])
            if not found:
                continue
            if rival.kind == LIMIT:
                found.pop("p50_ratio", None)
                text = share_text(workload, found, target.is_compiled)
                lines.append(f"    {target.name}, share of the limit: {text}")
            else:
                lines.append(f"    {target.name} against {rival.name}: {ratio_text(found)}")
            compared[rival.name] = {key: asdict(spread) for key, spread in found.items()}
            if rival.kind == "rabbitmq" and not rival.queue_type:
                judged |= {key: spread.median for key, spread in found.items()}
        bounds = bounds_of(workload, target.is_compiled)
        slowness = slowness_of(workload, targets, results)
        paced = at_pace(bounds, slowness) if slowness > 0 else bounds
        word = verdict(paced, judged)
        entry |= {"ratios": compared, "verdict": word, "slowness": slowness or None}
        pace = f"; RabbitMQ costs {slowness:.3g} of its reference" if paced != bounds else ""
        lines.append(f"    {target.name}: {word}{pace}")
    return lines, values


def resource_report(
    row: str, targets: Sequence[Target], results: Mapping[str, dict[str, float] | None]
) -> tuple[list[str], dict[str, object]]:
    """The lines and the JSON values of the memory or the overload row."""
    lines: list[str] = []
    values: dict[str, object] = {}
    for target in targets:
        found = results.get(target.name)
        if found is None:
            lines.append(f"  {target.name:<18} failed")
            continue
        text = TEXTS[row](found)
        lines.append(f"  {target.name:<18} {text}")
        entry: dict[str, object] = {"values": found}
        values[target.name] = entry
        bounds = resource_bounds_of(row, target.is_compiled)
        if target.kind == "penstock" and bounds:
            word = verdict(bounds, found)
            entry["verdict"] = word
            lines.append(f"    {target.name}: {word}")
    return lines, values


def memory_text(found: Mapping[str, float]) -> str:
    """One line about memory and start."""
    forms = (
        ("bytes_per_16b", "{:.0f} B per queued 16 B message"),
        ("bytes_per_1k", "{:.0f} B per 1 KB message"),
        ("bytes_per_connection", "{:.0f} B"),
        ("cpu_us_per_connection", "and {:.0f} us CPU per idle connection"),
        ("idle_mb", "idle {:.1f} MiB"),
        ("start_s", "listening after {:.2f} s"),
        ("memory_left_mb", "left after a backlog {:.1f} MiB"),
        ("command_cpu_s", "slowest command {:.2f} s CPU"),
    )
    return "  ".join(form.format(found[key]) for key, form in forms if key in found)


def overload_text(found: Mapping[str, float]) -> str:
    """One line about the flood."""
    stopped = "  STOPPED by the memory guard" if found["is_stopped"] else ""
    rss = f"rss peak {found['rss_mb']:.0f} MiB  " if "rss_mb" in found else ""
    return (
        f"{rss}published {short(found['publish_rate'])}/s  consumer {found['consumer_rate']:.0f}/s"
        f" ({found['consumer_share']:.1%} of its rate; last second"
        f" {found['consumer_rate_last']:.0f})  in {found['seconds']:.0f} s{stopped}"
    )


def drain_text(found: Mapping[str, float]) -> str:
    """One line about a backlog."""
    return (
        f"{short(found['count'])} messages taken at {short(found['fill_rate'])}/s "
        f"(cpu {found['fill_cpu_us']:.3g} us), drained at {short(found['drain_rate'])}/s = "
        f"{found['drain_mb_s']:.0f} MB/s (cpu {found['drain_cpu_us']:.3g} us)"
        f"  rss peak {found['rss_mb']:.0f} MiB  sync {duration(found['sync_us'])}"
    )


TEXTS: Final = {"memory": memory_text, "overload": overload_text, "drain": drain_text}


# --- smoke ----------------------------------------------------------------------------------------


def smoke_facts(workload: Workload, sample: Sample) -> dict[str, object]:
    """What a run of a fixed number of messages must give on every broker, every time."""
    return {
        "row": workload.name,
        "sent": sample.sent,
        "got": sample.got,
        "body_bytes": sample.body_bytes,
        "per_consumer": list(sample.per_consumer),
    }


def smoke_faults(workload: Workload, sample: Sample) -> list[str]:
    """What is wrong with such a run, one line each; empty when every message arrived as sent."""
    expected = workload.count * workload.copies
    checks = (
        (sample.sent == workload.count, f"sent {sample.sent} of {workload.count}"),
        (sample.got == expected, f"delivered {sample.got} of {expected}"),
        (
            "--confirm" not in workload.options or sample.confirmed == sample.sent,
            f"confirmed {sample.confirmed} of {sample.sent}",
        ),
        (sample.nacks == 0, f"{sample.nacks} publishes refused"),
        (sample.wrong == 0, f"{sample.wrong} deliveries of another size, queue or key"),
        (sample.altered == 0, f"{sample.altered} deliveries with altered properties"),
        (sample.disorder == 0, f"{sample.disorder} deliveries out of order"),
    )
    return [f"{workload.name}: {text}" for is_right, text in checks if not is_right]


def smoke_hash(facts: Sequence[Mapping[str, object]]) -> str:
    """A short name for the deterministic part of a smoke run."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
