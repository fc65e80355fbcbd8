"""Staged publishing that happens exactly once.

In it: stages of an application, commits with their order, and messages that wait for their queue.
Enters: messages and commits of applications, each with a number.
Leaves: messages in queues and streams, all of a commit or none, once.
Begin with: transaction_manager.
"""
