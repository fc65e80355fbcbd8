"""The machine: its clocks, its memory, its chance."""
