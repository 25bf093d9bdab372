"""Qlik Replicate's JSON messages: metadata (MD) messages declare tables, data (DT) messages are changes.

`messages` reads a body. `standard_form` finds the parts of a message in the default format, `layouts` in another one;
`avro_records` reads messages in Avro. `metadata` turns an MD message into a schema. `history` keeps the versions of a
source's structure, and finds the one that a data message was written under; `masks` applies its column masks then.
`columnar` and `columnar_images` read all data messages of a body together, unless one is unusual. Sources:
docs/reference/replicate.md.
"""
