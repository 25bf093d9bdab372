"""The mirror process: it finds tables with new landing files and applies them to Delta tables in Spark tasks.

`process` opens, locks and ends everything. `folder_changes` finds tables that may have changed, `loop` hands them to
worker slots, each of which runs one Spark job at a time, and `task` applies files within a Spark task. `table_states`
keeps what is known of each table between two rounds. `report_store` stores the reports in the gateway's database if
there is one, and `once` shows progress and result of a single run. The lock of the target is in
`app.mirror.target_lock`.
"""
