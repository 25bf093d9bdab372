"""The family `mirrorgate layouts`: store, show, list and delete layouts of Replicate messages.

`commands` has one function per command.
"""
