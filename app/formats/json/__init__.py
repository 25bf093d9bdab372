"""Strict JSON, for all formats: what two readers could understand differently is rejected.

`decoder` turns a body into typed messages; `framing` cuts a body into messages, `texts` and `utf8` check its texts,
`nested_values` bounds what decoding can cost, and `duplicate_keys` finds a repeated key. `duplicate_key_prefilter` and
`byte_accounting` prove cheaply that most bodies need no exact check. `json_to_columns` reads the images of many
messages as columns.
"""
