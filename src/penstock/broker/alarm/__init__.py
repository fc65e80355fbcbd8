"""Memory and disk alarms as the broker carries them.

In it: which alarm is set for which reason, for whom, and what it does.
Enters: what admin/alarm_watch has measured.
Leaves: connections that are blocked and released, and their notices.
Begin with: alarm_manager.
"""
