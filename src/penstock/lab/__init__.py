"""Runs the same workloads under every flow-control strategy, in virtual time or on a real broker.

In it: workloads, costs of a processor, peers, figures of a run, scores, plots.
Enters: a workload, a profile, a seed.
Leaves: results, verdicts, results.json and results.csv.
Begin with: workload, then run.
"""
