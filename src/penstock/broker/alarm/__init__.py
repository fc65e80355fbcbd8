"""Memory and disk alarms: their reasons and what they do."""
