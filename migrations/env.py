"""Alembic's environment: runs the revisions on the connection that `schema_revision.migrate` opened."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table_schema="mirrorgate", transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
