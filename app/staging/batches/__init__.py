"""Batches in Postgres: how requests become staged blocks, in one transaction.

`stage_transaction` stages a group of requests: it locks the tables (`sequence_lock`, `locked_table`), checks each
request again under the locks, gives each batch its sequence (`LockedTable.add`), inserts one block per table
(`block_insert`) and writes what belongs to it: row images, source positions, receipts (`idempotency`) and dead
letters. `staged_blocks` reads blocks. `batch` defines what goes in and out, and `commit_verification` finds out whether
an unanswered COMMIT took effect.
"""
