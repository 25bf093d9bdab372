"""`mirrorgate verify`: check whether a landing zone, by any publisher, keeps the rules of open mirroring.

`table_verification` runs the checks of all tables, table by table; `checks` has those of folders and files. `row_check`
reads each file once, turns its rows into change events with hashed keys (`change_events`), and compares these with the
history of each key. `compare_zone` compares tables with Delta tables, our mirror's or Fabric's own: `zone_fold` applies
the files of a table by Fabric's rules to hashes of keys and rows, independently of `app.mirror`. `codes` defines what a
check reports, what each code means and what to do about it: it is the only source of the tables in
docs/reference/verify-findings.md. Invariants: nothing here writes to a zone, no content of a zone ends the run, and a
finding never contains a row value, unless a comparison is asked for values.
"""
