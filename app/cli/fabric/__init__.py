"""`mirrorgate fabric`: create, start, stop and examine the mirrored database that reads the landing zone.

Invariant: every command can be repeated; what is already so is said and left as it is.
"""
