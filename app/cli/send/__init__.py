"""The command `mirrorgate send`.

`command` declares its options, checks them and starts a job of `app.client.send`; `report` lays out what was sent, for
people and as JSON. The work itself is in `app.client.send`.
"""
