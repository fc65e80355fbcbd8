"""Several broker processes behind one port: each has virtual hosts of its own (adr/0043).

In it: the parent, which starts and watches them; who has which virtual host; one worker's process;
answers for all of them.
Enters: questions to the parent's control socket. Leaves: questions to the workers' own.
Begin with: placement, then parent, then gather_table.
"""
