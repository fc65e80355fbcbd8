"""The flight recorder as a service, and files of events."""
