"""What a connection has its client told about flow control. COMPILED."""

from mypy_extensions import mypyc_attr

from penstock.broker.channel.channel import Channel


@mypyc_attr(allow_interpreted_subclasses=True)
class Notifier:
    """Tells one client that its publishes are held. This one tells nothing: it is that of a
    connection that is not open yet. See ClientNotifier."""

    __slots__ = ()

    def alarms_changed(self) -> None:
        """An alarm began or ceased to stop this connection's publishes."""

    def ask_to_pause(self, is_paused: bool) -> None:
        """In a profile whose alarms hold nothing: one has begun, or the last is over."""

    def publish_held(self, channel: Channel) -> None:
        """A publish of `channel` has arrived and cannot go on now."""

    def blocked_by_alarm(self, reason: str) -> None:
        """The first publish is held for an alarm: connection.blocked if the client knows it."""

    def unblocked_by_alarm(self) -> None:
        """The last alarm is over."""

    def channel_opened(self, channel: Channel) -> None:
        """channel.open-ok has been written."""

    def flow_answered(self, channel: Channel) -> None:
        """channel.flow-ok has arrived."""

    def takes_as_reply(self, channel: Channel, is_active: bool) -> bool:
        """Whether a channel.flow from the client stands for the flow-ok that is waited for."""
        return False

    def look(self, now_ns: int) -> list[str]:
        """From time to time: tell what has lasted too long by now; lines for the log."""
        return []

    def ended(self) -> None:
        """The connection is gone."""
