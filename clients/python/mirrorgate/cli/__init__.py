"""The command line `mirrorgate`: one command per module, and what all of them print with."""
