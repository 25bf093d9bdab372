"""Arrow as bytes: staged payloads, and the schemas of the metadata chain.

`payload` encodes the rows of a staged block; `schema_flatbuffer` writes a schema as the metadata chain stores it, and
reads schemas that callers send. `fields` and `flatbuffer` read schemas from outside with bounds checks, because
PyArrow's reader trusts its input (decision 0021).
"""
