"""Stores that no broker uses: checked, measured, compacted."""
