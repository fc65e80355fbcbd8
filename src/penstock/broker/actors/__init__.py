"""What every actor of the broker is made of.

In it: turns and their scheduler, lanes between actors, outputs to clients, confirms, syncing.
Enters: messages on lanes and wake-ups from timers, gates and disk jobs.
Leaves: turns, frames in the output of a connection, and answers that are due.
Begin with: actor.
"""
