"""What a broker would have done with another setting: its own recent load, in the simulator."""
