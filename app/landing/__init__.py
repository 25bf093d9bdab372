"""The landing zone: its contract, its stores, and the steps that make a file visible.

`zone` is the contract that every store keeps; `local_zone` and `adls` implement it, and `open_zone` chooses by address.
`publish` has W2, W6, W7 and R3 to R5 of docs/contribute/publication-protocol.md, `landed_state` W3's view of a table
folder, and
`parquet_file` the files themselves. `zone_owner` and `claimed_zone` keep a gateway to its own zone. `probe`,
`verification`, `scratch_sweep` and `monitoring` check, compare, clean up and read Fabric's status.
"""
