#!/bin/sh
# Makes the two databases, each with an owner of its own. The postgres image runs this once, when its data folder is new.
# A role's password is the fifth field of its password file; psql reads it itself, so that it stands in no argument and no variable.
set -eu
secrets=${RUNCAST_SECRETS:-/run/secrets}

for role in airflow mlflow; do
	export passfile="$secrets/${role}_pgpass"
	[ -r "$passfile" ] || { echo "databases: $passfile cannot be read; see deploy/compose/secrets.sh" >&2; exit 1; }
	psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --set role="$role" --username "$POSTGRES_USER" --dbname postgres <<-'SQL'
		\set password `cut -d: -f5 "$passfile"`
		CREATE ROLE :"role" LOGIN PASSWORD :'password';
		CREATE DATABASE :"role" OWNER :"role";
		REVOKE CONNECT ON DATABASE :"role" FROM PUBLIC;
	SQL
done
