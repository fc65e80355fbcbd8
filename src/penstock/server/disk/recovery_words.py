"""What people should know of a recovery, a line each."""

from penstock.broker.stream.stream_actor import StreamActor
from penstock.storage.layout.format import ORPHANED
from penstock.storage.recovery.recovery import Report
from penstock.streams.recovery import StreamReport


def orphan_words(count: int) -> str:
    """What people should know of files whose queues nobody has heard of."""
    return (
        f"{count} files have messages of queues that metadata.sqlite has never heard of; they "
        f"were set aside as *{ORPHANED}. If only a part of a backup was restored, stop the broker, "
        "and restore the whole data directory from one copy; if the disk was full when those "
        "queues were declared, nothing in them was ever confirmed, and the files may be removed"
    )


def store_words(report: Report) -> list[str]:
    """What people should know of a recovery, a line each."""
    lines: list[str] = []
    if report.cut_bytes > 0:
        lines.append(f"{report.cut_bytes} bytes behind the last whole record were cut off")
    if report.old_bytes > 0:
        lines.append(
            f"{report.old_bytes} bytes behind the last whole record of files that had been used "
            "before were cut off: of their earlier lives, or torn"
        )
    if report.ignored_acks > 0:
        lines.append(f"{report.ignored_acks} acknowledgements of unknown messages were ignored")
    if report.orphan_count > 0:
        lines.append(orphan_words(report.orphan_count))
    for text in report.unreadable:
        lines.append(text)
    if 0 in report.lost:
        lines.append(f"{report.lost[0]} damaged records, of no queue that can be told")
    return lines


def stream_words(report: StreamReport, actors: dict[int, StreamActor]) -> list[str]:
    """What people should know of a recovery, a line each."""
    lines = list(report.lines)
    if report.orphan_count > 0:
        lines.append(orphan_words(report.orphan_count))
    if report.cut_bytes > 0:
        lines.append(f"{report.cut_bytes} bytes behind the last whole chunks were cut off")
    for queue_id, count in report.lost.items():
        lines.append(
            f"{actors[queue_id].identity}: damaged, {count} of its messages cannot be read"
        )
    return lines
