"""Send files of changes to a gateway over HTTP: `mirrorgate send`.

`job` decides which files are sent, and where a producer or a load session continues. `sender` posts one chunk after the
other, with headers that name the request. `progress` counts what was accepted and shows it.
"""
