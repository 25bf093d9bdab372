"""Table manifests: tables declared in a YAML file, for `mirrorgate tables apply` and `tables export`.

`yaml_text` reads YAML with the line of every value and `manifest` turns it into declared tables. `export` writes tables
as a manifest. No input or output happens here. `app.cli.tables.manifest_plan` asks a gateway what the declared tables
would change.
"""
