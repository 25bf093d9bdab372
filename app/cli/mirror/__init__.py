"""`mirrorgate mirror`: run the Delta mirror and look at its tables.

Each module holds one command or one family of commands. `mirror run` reads a landing zone; every other command finds
its Delta tables through the option --to and never writes a row.
"""
