"""Strict JSON, for all formats: what two readers could understand differently is rejected.

`decoder` turns a body into typed messages; `framing` cuts a body into messages, `texts` and `utf8` check its texts,
`nested_values` bounds what decoding can cost, and `duplicate_keys` finds a repeated key; `duplicate_key_prefilter`
tells cheaply that most bodies have none. For the columnar path, `image_decoder` reads the images of many messages at
once, and `quote_accounting` proves that nothing was dropped.
"""
