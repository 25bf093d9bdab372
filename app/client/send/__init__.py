"""Send files of changes to a gateway over HTTP: `mirrorgate send`.

`job` decides which files are sent, and where a producer continues. `sender` posts one chunk after the other, `load_run`
names the requests of a load session. `progress` counts what was accepted and shows it.
"""
