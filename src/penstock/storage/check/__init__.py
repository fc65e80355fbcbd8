"""Stores that no broker uses: checked, measured, compacted.

In it: a check byte by byte, its findings, and changes that stay in memory.
Enters: the files of a store.
Leaves: findings and figures for `penstock store`.
Begin with: check.
"""
