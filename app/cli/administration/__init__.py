"""Commands of administrators.

`keys` and `audit` call the API. `landing_zone` opens the database and the zone directly, because the API never sees
the zone, and so does `mask_secret`, because no request has a secret. `alerts` calls the webhook that the API sends
alerts to.
"""
