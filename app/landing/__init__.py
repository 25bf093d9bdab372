"""The landing zone: its contract, its stores, and the steps that make a file visible.

`zone` is the contract that every store keeps; `local_zone` and `adls` implement it, and `open_zone` chooses by address.
`publish` has W2, W6, W7 and R3 to R5 of docs/contribute/publication-protocol.md and sweeps the scratch folder,
`landed_state` W3's view of a table folder, and `parquet_file` the files themselves. `zone_owner` keeps a gateway to its
own zone. `probe` checks a zone, and `verification` compares it with the ledger.
"""
