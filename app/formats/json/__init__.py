"""Strict JSON, for all formats: what two readers could understand differently is rejected.

msgspec decodes every body. It rejects what is not JSON or has another type, and accepts silently: the last of two
equal keys; keys that no type knows, with wrong strings in them; U+0000; any depth. Each path closes these gaps with one
mechanism (docs/contribute/decisions/0034):

- Columnar path, `quote_accounting`: if a quote belongs to no decoded key or text, a key was dropped, and the path
  declines. It also declines a suspicious escape, and objects or lists where it expects strings.
- Exact path, `decoder`: the messages written again have as many quotes as the body and are not too deep, or
  every key, text and bracket of the body is looked at.

Invariants: the columnar path never rejects. The exact path rejects what a plain recursive reader of strict JSON
rejects, and nothing else, with index and pointer.

`framing` cuts a body into messages where one is wrong. `texts` checks UTF-8 and escapes, bounds lists and objects, and
separates the key of a Kafka record from its message.
"""
