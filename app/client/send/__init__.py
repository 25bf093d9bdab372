"""Send files of changes to a gateway over HTTP: `mirrorgate send`.

`job` puts a run together. `files` sends one file, `folder` and `follow` the files of a folder as they arrive, and
`follow_tables` those of several tables. `source` says how a file is cut, `decompress` unpacks it, and `sender` posts
one chunk after the other. With a producer, `journal` and `numbering` make every request repeatable after a crash;
`load_run` does so for a load session. `progress` counts what was accepted, `progress_display` shows it.
"""
