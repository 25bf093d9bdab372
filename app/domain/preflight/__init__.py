"""Judgements of what checks and probes found: facts in, findings with remedies out.

`database_findings`, `machine_findings` and `zone_findings` judge the facts that `app.checks` collects, as the
`finding`s that `mirrorgate doctor` shows; unsafe ones prevent a start.
"""
