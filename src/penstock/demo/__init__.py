"""`penstock run`: broker, real clients, one scenario, analysis and report in one go.

In it: child processes, the scenario, the screen, the act with Spark.
Enters: the options of the command.
Leaves: promises kept or broken, a report, an exit status.
Begin with: main.
"""
