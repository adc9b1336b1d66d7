#!/bin/sh
# Starts PostgreSQL with the database `readings`. The first start makes it, with the role and password of the variables
# PGUSER and PGPASSWORD.
set -eu
bin=$(dirname /usr/lib/postgresql/*/bin/postgres)
data=/data/postgresql

if [ ! -d "$data" ]; then
    rm -rf "$data.new"
    printf '%s\n' "$PGPASSWORD" >/tmp/password
    "$bin/initdb" --pgdata="$data.new" --username="$PGUSER" --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 >/dev/null
    rm /tmp/password
    echo "host all all samenet scram-sha-256" >>"$data.new/pg_hba.conf"
    echo "CREATE DATABASE readings" | "$bin/postgres" --single -D "$data.new" postgres >/dev/null
    mv "$data.new" "$data" # a start that was interrupted begins again
fi

exec "$bin/postgres" -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp
