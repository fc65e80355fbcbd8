"""Scenarios and random worlds."""
