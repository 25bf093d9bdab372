"""Alerts to a webhook, for gateways without Prometheus.

`watch` is a thread that reads what Postgres knows, lets `conditions` turn it into alerts, lets the rules in
`app.domain.preflight.alerts` decide which of them are due, and sends these with `messages`. What was told is stored
afterwards: an alert may be sent twice, and none is lost.
"""
