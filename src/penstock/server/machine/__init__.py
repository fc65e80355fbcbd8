"""The machine: clocks, memory, chance, and the reserve on the disk.

In it: probes of memory and disk, the control group, the allocator, and the kind of build.
Enters: nothing but what the operating system says.
Leaves: numbers for the alarm watch, and times for every turn.
Begin with: probe.
"""
