"""Compare what a landing zone makes of its tables with Delta tables: our mirror's, or Fabric's own.

`compare_zone` is the entry point. `zone_fold` applies the files of a table by Fabric's rules to hashes of keys and
rows, independently of `app.mirror`; `delta_side` reads a Delta table as the same hashes; `table_comparison` finds the
keys that differ, and says for the first ones which file and which columns. Invariant: values are in a finding only if
the caller asks for them.
"""
