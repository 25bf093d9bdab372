"""The command `mirrorgate send`.

`command` declares its options and starts a job of `app.client.send`, which does the work. `usage` checks which options
go together, and `report` lays out what was sent, for people and as JSON.
"""
