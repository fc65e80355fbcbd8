"""A load tool over our own client, in the manner of PerfTest.

In it: the plan of a run, producers, consumers, one loop over all sockets, figures.
Enters: the options of `penstock perf`, and the address of a broker.
Leaves: lines of figures while it runs, and a summary.
Begin with: run.
"""
