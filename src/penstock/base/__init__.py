"""What every room needs and that needs none of them.

In it: errors, bounds with their ranges, units and quantities, clocks and chance as arguments, and
    the reading of numbers from bytes.
Enters: nothing: no room lies below this one.
Leaves: values, and the errors that say who is at fault: the client, the operator or Penstock.
Begin with: limits.
"""
