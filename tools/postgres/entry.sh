#!/bin/bash
# Makes the cluster in $PGDATA at the first start, then runs the command as the account postgres.
set -euo pipefail
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" && chmod 700 "$PGDATA" && chown -R postgres "$PGDATA" /run/postgresql
  exec gosu postgres "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --username="$POSTGRES_USER" --pwfile=<(echo "$POSTGRES_PASSWORD") --auth=scram-sha-256
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  postgres --single -D "$PGDATA" template1 <<<"CREATE DATABASE $POSTGRES_DB"
fi
exec "$@"
