"""What is asked from outside: views, definitions, restoring, the alarm watch."""
