"""`mirrorgate verify`: check whether a landing zone, by any publisher, keeps the rules of open mirroring.

`zone_verification` runs the checks table by table; `checks` has those of folders and files, `rows` those of rows, and
`comparison` compares tables with Delta tables. `finding` defines what a check reports, `codes` what each code means and
what to do about it: it is the only source of the tables in docs/reference/verify-findings.md. Invariants: nothing here
writes to a zone, no content of a zone ends the run, and a finding never contains a row value.
"""
