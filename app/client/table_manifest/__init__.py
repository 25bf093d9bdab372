"""Table manifests: tables declared in a YAML file, for `mirrorgate tables apply` and `tables export`.

`yaml_text` reads YAML with the line of every value and `manifest` turns it into declared tables. `plan` compares those
with the tables of a gateway, and `rejections` names the differences that need a table to be recreated. `export` writes
tables as a manifest. No input or output happens here: texts and answers of the gateway are arguments, plans and texts
are results.
"""
