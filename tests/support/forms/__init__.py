"""The forms in which tools send the changes of a table, each written in any of its spellings.

Every tool writes the same changes differently, and none of them may change what lands. The random model sends them to a
gateway. Other tests write the transactions of one history in each form, and read them without a gateway.
"""
