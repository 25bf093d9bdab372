"""Retention in Postgres: payloads are deleted by whole partitions, everything else in small transactions.

`rounds` decides what is due and does it, one process at a time. It adds up the facts that it deletes with their
payloads, so that you can still check that accepted = staged = published. `payload_partitions` opens, empties, detaches
and drops the partitions of the payloads. `history` keeps the samples that the console plots. The drain calls
`run_retention` with the limits of its settings.
"""
