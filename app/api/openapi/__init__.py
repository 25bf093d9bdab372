"""The OpenAPI contract: what the routes' own types do not say, and the pages that show it."""
