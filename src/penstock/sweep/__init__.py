"""Many simulated runs over a grid of settings, and a fluid model for crowds of connections.

In it: points and rows, the grid, the fluid model, fronts of best settings, tables and plots.
Enters: axes of workloads, profiles and settings.
Leaves: one row a point, a pure function of it; what is best where, and the model's error.
Begin with: point, then grid.
"""
