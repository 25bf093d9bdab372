"""Qlik Replicate's JSON messages: metadata (MD) messages declare tables, data (DT) messages are changes.

`messages` reads a body. `forms` has the forms in which messages arrive; `data_messages` turns the parts of a data
message into a change, `metadata` an MD message into a schema.
`history` keeps the versions of a source's structure, and `versions` finds the one that a data message was written
under; `masks` applies its column masks then. `renames` finds columns that a new version seems to rename. `columnar` and
`columnar_images` read all data messages of a body together, unless one is unusual. Sources:
docs/reference/replicate.md.
"""
