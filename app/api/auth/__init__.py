"""Who calls: keys, tokens of an OpenID Connect issuer, and the rights that each route needs."""
