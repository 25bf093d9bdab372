"""Authentication and authorization: API keys, tokens of an OpenID Connect issuer, and the rights of each route.

`authenticator` turns the key or token of a request into a credential and caches keys for five seconds; `oidc` verifies
tokens with the public keys that it reads from the issuer, and builds the verifier from the settings.
`dependencies` is what routes use: it authenticates a request once, counts it towards the limits of its key, and
returns the principal if the credential has the right that the route needs. Without a right, the answer is always no.
"""
