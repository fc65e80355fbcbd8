"""Records what happened, how actors spent their time, and how long each held another.

In it: event kinds and their lines, time accounts, waits for answers, snapshots, windows, records.
Enters: changes of state, gates and answers, told by the broker's actors with their times.
Leaves: event files, flight records, and windows of every actor for explain/.
Begin with: recorder, then window.
"""
