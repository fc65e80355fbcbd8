"""The commands.

In it: one module for each command, and how tables are set.
Enters: words of the command line.
Leaves: text or JSON on standard output, and an exit code.
Begin with: main.
"""
