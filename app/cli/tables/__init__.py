"""The commands `mirrorgate tables …`.

`show` lists tables and prints what the gateway knows about one, and registers a table. `operations` drops, recreates,
renames, pauses, resumes, flushes and repairs; `release` ends quarantines; `verify` compares files with the ledger,
`check` rows with their source. `export_rows` writes the rows of a table, `backfill_images` gives row images to older
rows, `rebuild` lands a table again from its row images, and `loads` lists and aborts load sessions. `manifest_commands`
declares `apply` and `export`, which `manifest` carries out. Commands are registered in `app.cli.main`, never by
importing a module.
"""
