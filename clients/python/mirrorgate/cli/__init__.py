"""The command line `mirrorgate`: one command per module, and what all of them print with.

`main` builds it from `send`, `wait` and the commands that other distributions add. `options` has parameters of
several commands, `console` the streams and statuses, `grid` tables of text.
"""
