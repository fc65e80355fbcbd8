"""Stores the tables: Delta where `deltalake` is installed, else Parquet.

In it: the store, reading gold tables back, exports, the Delta sink for users' queries.
Enters: files that tasks have written, with the batch they belong to.
Leaves: one version of a table a batch, each batch once.
Begin with: store.
"""
