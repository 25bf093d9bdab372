"""The revisions, in the order of their `down_revision`; numbers are unique names, chosen in branches.

Each states its kind in its docstring. *expand* serves older programs too; *contract* removes what no program needs any
more, and raises `installation.oldest_program` to the oldest program that it still serves.
"""
