"""The commands `mirrorgate tables …`, and `mirrorgate status`.

`show` lists tables, prints what the gateway knows about them, and registers a table. `operations` drops, recreates,
renames, pauses, resumes, flushes, repairs and releases, lists and aborts load sessions, and declares `apply` and
`export`, which `manifest` carries out. `check` compares rows with their source, compares files with the ledger, and
writes rows (`table_rows`). `images` lands a table again from its row images and gives images to older rows. Commands
are registered in `app.cli.main`, never by importing a module.
"""
