"""Comparison of a table's rows with its source by counts and checksums, so that no row has to be sent.

`columns` says what is compared, and `canonical` turns typed rows into texts that every database can make too. `digests`
puts the rows into buckets by the MD5 of their key text, with a count and a checksum for each, and compares them with
those of the source; then it compares the rows of the buckets that differ. `source_sql` writes the queries for the
source, and `dialects` has what its databases say differently.
"""
