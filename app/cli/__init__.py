"""The program `mirrorgate`.

`main` registers every command by name; each module holds a family of commands. Command modules import only what
declares their options, so that `--help` starts fast; what does the work is imported when a command runs. Commands that
call a gateway share `options.Connection`. Commands that read the database and the landing zone themselves (`tables
verify`, `landing-zone`, `doctor`) go through `direct`. `output` lays out tables for people, `console` has both streams.
"""
