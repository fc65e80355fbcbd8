"""The control socket and the questions it answers.

In it: the socket, its client for commands, and one module for each kind of question.
Enters: one request as a line of JSON from a command.
Leaves: one answer as JSON, made in slices so that clients go on.
Begin with: questions.
"""
