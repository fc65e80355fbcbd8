"""Brings files and streams of events into bronze tables.

In it: what is new since the last round, parsing, the event stream of a broker, slices for tasks.
Enters: event and trace files, or the telemetry stream.
Leaves: bronze rows, each line once, unreadable lines as text.
Begin with: intake.
"""
