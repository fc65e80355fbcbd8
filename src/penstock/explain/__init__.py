"""Floor 2: answers to "why", made of what telemetry has recorded."""
