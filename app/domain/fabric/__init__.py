"""What Fabric's states mean: of a mirrored database and of its tables, as its API and its monitoring file report them.

`states` and `tables` have the values and read them, `remedies` says what to do about each, and `trouble` judges what a
drain has stored: whether it needs an operator, and why.
"""
