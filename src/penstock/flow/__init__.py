"""Flow control as pure decisions.

In it: gates, hops with credit, accounts, strategies, alarms, rate limits and the watchdog.
Enters: counts, sizes and times, from the actors that send and receive.
Leaves: "go on" and "wait", and the reason and the time of each, for the recorder.
Begin with: hop.
"""
