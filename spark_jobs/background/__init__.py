"""Long work beside the drain's loop: table ids -> attempts in a thread for each kind of work.

`work` starts, notes and ends attempts; `backfills` gives row images to rows from before their table kept any.
`spark_jobs.rebuilding` is another kind.
"""
