"""One judgement of the gateway: facts in, troubles with severity and remedy out.

`troubles(facts)` is the only place that decides what is wrong. The console's overview and pages of tables, the alerts
of the webhook, `/readyz`, `/statusz` and `mirrorgate status` print what it returns. The rules for Prometheus are
compared with it by `tests/domain/test_troubles.py`. It also decides which troubles the webhook is told, and when.
"""
