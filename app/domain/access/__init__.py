"""Callers: their keys, the claims of their tokens, their rights and their quotas.

`api_key` parses and compares keys, `token_claims` reads verified tokens; both lead to a Credential of `rights`, whose
Principal says which tables a call may touch. `rate_limit` bounds what a caller sends, `rejections` counts rejected
calls for the audit. `mask_secret` compares the secret of hashed columns with those that tables were hashed under,
and `row_rule_rights` says who may change what hides values.
"""
