"""The commands `mirrorgate tables …`.

`show` lists tables and prints what the gateway knows about one, and registers a table. `operations` drops, recreates,
renames, pauses, resumes, flushes and repairs; `release` ends quarantines; `verify` compares files with the ledger,
`check` rows with their source. `export_rows` writes the rows of a table, and `backfill_images` gives row images to its
older rows.
`manifest_commands` declares `apply` and `export`, which `manifest` carries out. `rebuild` lands a table again from its
row images. Commands are registered in `app.cli.main`, never by importing a module.
"""
