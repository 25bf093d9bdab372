"""`mirrorgate verify`: the command, what people see of its findings, and following a zone.

`command` opens the zone and runs `app.verify`; `report` prints its findings by table and code, `progress` shows how far
the run is, and `follow` repeats it and prints what is new.
"""
