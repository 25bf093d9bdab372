"""Callers: their keys, the claims of their tokens, their rights and their quotas.

`rights` parses and compares keys, bounds what a caller sends, and says which tables a call may touch; `sign_in` has the
sessions of the console and reads verified tokens. `rejections` counts rejected calls for the audit. `mask_secret`
compares the secret of hashed columns with those that tables were hashed under.
"""
