"""Run the whole gateway on one machine: `mirrorgate up`.

`up_plan` checks settings and packages, `up` starts Postgres, the API and the drain as child processes, and `supervisor`
keeps them running and stops them. `child_process` is the children's side of that. `log_files` rotates their logs,
`client_files` tells client commands where the gateway is, and `embedded` holds what is needed besides Python packages.
"""
