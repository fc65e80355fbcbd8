"""Who published what the reader groups of one stream have not passed: counted by spans of offsets.

    [span][span][span]...   each with what it has of every cause; the newest takes what comes
A batch adds to one span, whatever is in it. When there are too many spans each two become one, so
the count gets coarser as the lag grows: what is left of a span that a group is in the middle of is
divided in proportion. What came before a group did, or before the last start, is nobody's here.
Source: design/spark.md 4.2.
"""

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.base.limits import STREAM_ORIGIN_SPANS, STREAM_ORIGINS

SPAN_MESSAGES = 256
"""A span with so many is full, until there are too many of them."""


class Share:
    """What one cause has of a span."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0


class OriginSpan:
    """Offsets begin..next-1. shares: by cause."""

    __slots__ = ("begin", "next", "shares")

    def __init__(self, begin: i64) -> None:
        self.begin: i64 = begin
        self.next: i64 = begin
        self.shares: dict[Cause, Share] = {}


class Origins:
    """spans: oldest first; span_messages: one that has so many is full; rest: whoever pays for
    causes beyond STREAM_ORIGINS of a span."""

    __slots__ = ("rest", "span_messages", "spans")

    def __init__(self, rest: Cause) -> None:
        self.rest = rest
        self.spans: list[OriginSpan] = []
        self.span_messages: i64 = SPAN_MESSAGES

    def came(self, origin: Cause, messages: i64, bytes_: i64, next_offset: i64) -> None:
        """`messages` of `origin`, with `bytes_` of content, got the offsets before
        `next_offset`."""
        span = self.spans[-1] if self.spans else None
        if span is None or span.next - span.begin >= self.span_messages:
            span = OriginSpan(next_offset - messages)
            self.spans.append(span)
            if len(self.spans) > STREAM_ORIGIN_SPANS.default:
                self._coarsen()
                span = self.spans[-1]
        span.next = next_offset
        self._add(span, origin, messages, bytes_)

    def _add(self, span: OriginSpan, origin: Cause, messages: i64, bytes_: i64) -> None:
        share = span.shares.get(origin)
        if share is None:
            if len(span.shares) >= STREAM_ORIGINS.default:
                origin = self.rest
                share = span.shares.get(origin)
            if share is None:
                share = Share()
                span.shares[origin] = share
        share.messages += messages
        share.bytes += bytes_

    def _coarsen(self) -> None:
        """Each two spans become one; single batches may be larger than that, and then more."""
        while len(self.spans) > STREAM_ORIGIN_SPANS.default:
            self.span_messages *= 2
            self.spans = self._joined()

    def _joined(self) -> list[OriginSpan]:
        spans: list[OriginSpan] = []
        for span in self.spans:
            last = spans[-1] if spans else None
            if last is None or span.next - last.begin > self.span_messages:
                spans.append(span)
                continue
            last.next = span.next
            for origin, share in span.shares.items():
                self._add(last, origin, share.messages, share.bytes)
        return spans

    def passed(self, position: i64) -> None:
        """No group will come back to what lies before `position`."""
        spans = self.spans
        if not spans or spans[0].next > position:
            return
        count: i64 = 0
        for span in spans:
            if span.next > position:
                break
            count += 1
        self.spans = spans[count:]
        if not self.spans:
            self.span_messages = SPAN_MESSAGES

    def kept_from(self, position: i64) -> dict[Cause, tuple[int, int]]:
        """Messages and bytes of every cause from `position` on."""
        found: dict[Cause, tuple[int, int]] = {}
        for span in self.spans:
            whole: i64 = span.next - span.begin
            left: i64 = span.next - position
            if left <= 0:
                continue
            if left > whole:
                left = whole
            # What one is rounded down by the next one gets, so that the sum is right.
            over: i64 = 0
            for origin, share in span.shares.items():
                parts: i64 = share.messages * left + over
                over = parts % whole
                messages, bytes_ = found.get(origin, (0, 0))
                bytes_ += int(share.bytes * left // whole)
                found[origin] = (messages + int(parts // whole), bytes_)
        return found
