"""What Postgres forgets, and when: payloads by whole partitions, everything else in small transactions.

`rounds` decides what is due and does it, one process at a time. `payload_partitions` opens, empties, detaches and drops
the partitions of the payloads. `history_purge` deletes the facts that have lost their payloads, old files of the ledger
and row images of ended generations and of tables that keep none, and adds up what it deletes, so that accepted =
staged = published stays checkable. `history` keeps the samples that the console plots. The limits come from the
settings of the drain, which calls `run_retention`.
"""
