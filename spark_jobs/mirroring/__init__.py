"""The mirror process: it finds tables with new landing files and applies them to Delta tables in Spark tasks.

`process` opens, locks and ends everything, and stores the reports in the gateway's database if there is one. `loop`
finds tables that may have changed and hands them to worker slots, each of which runs one Spark job at a time, and
`task` applies files within a Spark task. The lock of the target is in `app.mirror`.
"""
