"""Staged publishing that happens exactly once."""
