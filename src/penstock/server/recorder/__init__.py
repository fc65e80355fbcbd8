"""The flight recorder as a service.

In it: rounds of snapshots, records frozen by an incident, and event files.
Enters: snapshots of every actor, once a period, and the recorder's events.
Leaves: records and event files, compressed and bounded.
Begin with: service.
"""
