"""Several broker processes behind one port: each has virtual hosts of its own.

parent starts them, and answers for all of them. Source: docs/adr/0043.
"""
