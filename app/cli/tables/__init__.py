"""The commands `mirrorgate tables …`, and `mirrorgate status`.

`show` lists tables, prints what the gateway knows about them, and registers a table. `operations` drops, recreates,
renames, pauses, resumes, flushes, repairs and releases, and lists and aborts load sessions; `files` compares files with
the ledger and writes rows (`table_rows`); `check` compares rows with their source. `images` lands a table again from
its row images and gives images to older rows. `manifest_commands` declares `apply` and `export`, which `manifest`
carries out; `manifest_plan` asks the gateway what would change. Commands are registered in `app.cli.main`, never by
importing a module.
"""
