"""Run the whole gateway on one machine: `mirrorgate up`.

`up` checks settings and packages, starts Postgres, the API and the drain as child processes, and tells client commands
where the gateway is. `supervisor` keeps the processes running and stops them. `child_process` is the children's side of
that. `log_files` rotates their logs. `data_directory` locks the folder, which `embedded` fills with what is needed
besides Python packages.
"""
