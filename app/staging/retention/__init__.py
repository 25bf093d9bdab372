"""Retention in Postgres: payloads are deleted by whole partitions, everything else in small transactions.

`rounds` decides what is due and does it, one process at a time. `payload_partitions` opens, empties, detaches and drops
the partitions of the payloads. `history_purge` deletes the facts that have lost their payloads, old files of the ledger
and row images of ended generations and of tables that keep none. It adds up what it deletes, so that you can still
check that accepted = staged = published. `history` keeps the samples that the console plots. The drain calls
`run_retention` with the limits of its settings.
"""
