"""Judgements of what checks and probes found: facts in, findings with remedies out.

`database_findings`, `machine_findings` and `zone_findings` judge the facts that `app.checks` collects, as the
`finding`s that `mirrorgate doctor` shows; unsafe ones prevent a start. `readiness` judges what the probes report,
`alerts` decides what is told to the webhook, and `judgements` has what the console says in the same way.
"""
