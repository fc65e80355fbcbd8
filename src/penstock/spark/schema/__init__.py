"""The formats of input files and the columns of every table.

In it: event and trace lines, row types, Arrow columns with texts as numbers.
Enters: lines of JSON, and arrays.
Leaves: typed rows and tables that both engines fill in the same way.
Begin with: formats, then rows.
"""
