"""Says what a broker would have done with another setting: its recent load, in the simulator.

In it: flows seen in a record, the change asked for, the model, predictions with their error.
Enters: a flight record and KEY=VALUE changes.
Leaves: predictions beside what was observed.
Begin with: observe, then model.
"""
