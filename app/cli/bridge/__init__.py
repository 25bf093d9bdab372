"""`mirrorgate bridge …`: the commands that run the bridges, one module each.

Each command reads its YAML file, and either checks it (`--check`) or runs until it is stopped. The work is in
`app.bridge`.
"""
