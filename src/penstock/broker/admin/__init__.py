"""What is asked from outside.

In it: views of actors, definitions in and out, restoring at a start, the alarm watch, flow
    tables.
Enters: questions of the control socket, and samples of the machine.
Leaves: snapshots and rows; alarms; definitions as one object.
Begin with: views.
"""
