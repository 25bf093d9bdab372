"""The schema of the database, one file per revision in `versions`.

`app.staging.connection.schema_revision` runs the revisions through Alembic, whose environment is `env`. A revision that
was released never changes. schema.sql shows what all of them make, with the purpose of each table and column.
docs/operate/upgrade.md states which programs a revision must serve.
"""
