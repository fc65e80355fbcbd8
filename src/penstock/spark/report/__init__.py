"""Turns gold tables into one page for people and a summary for programs.

In it: promises that a run must keep, recommendations, charts, the page.
Enters: gold tables and the description of the run.
Leaves: index.html and summary.json.
Begin with: summary, then report.
"""
