"""Answers "why" from recorded windows: who waits, for what, because of whom, and what helps.

In it: blame along closed gates, the causes at its roots, advice, timelines, text for people.
Enters: the windows of all actors over one stretch of time, live or from a flight record.
Leaves: an `Explanation` as data, and its text; no file here asks a broker anything.
Begin with: explain.
"""
