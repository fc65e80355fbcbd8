"""The simulated cluster: members of real code, with everything around them made of lists.

In it: directories, links, a coordinator, nodes, what goes wrong with them, and the laws.
Enters: a seed and a setting.
Leaves: a report, or the law that was broken and when.
Begin with: world, then node.
"""
