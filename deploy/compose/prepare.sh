#!/bin/sh
# Makes the folders and the secrets of the compose file, once: prepare.sh STATE [UID GID SERVE_UID]. What is there already is left alone.
# Passwords are made here and shown once at most: the operator's, for the web page.
set -eu
state=${1:?usage: prepare.sh STATE [UID GID SERVE_UID]} uid=${2:-50000} gid=${3:-50000} serve=${4:-50001}
umask 077

random() { # 43 letters, digits, - and _: 32 bytes as base64 for the web
	head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'
}

keep() { # keep NAME: write standard input to the secret NAME unless there is one
	[ -e "$state/secrets/$1" ] || { cat >"$state/secrets/.$1" && mv "$state/secrets/.$1" "$state/secrets/$1"; }
}

for folder in home home/airflow home/bundles mlflow postgres secrets run serve clusters logs; do
	mkdir -p "$state/$folder"
done
random | keep postgres_password
printf 'postgres:5432:airflow:airflow:%s\n' "$(random)" | keep airflow_pgpass
printf 'postgres:5432:mlflow:mlflow:%s\n' "$(random)" | keep mlflow_pgpass
# MLflow's one account, the operator's and the nights': as its server reads it, and as its clients do. Its accounts lie in its own database.
password=$(random)
printf '%s\n' '[mlflow]' 'default_permission = NO_PERMISSIONS' 'admin_username = operator' "admin_password = $password" \
	'authorization_function = mlflow.server.auth:authenticate_request_basic_auth' \
	"database_uri = ${MLFLOW_USERS:-postgresql+psycopg://mlflow@postgres/mlflow?passfile=/run/secrets/mlflow_pgpass}" | keep mlflow_auth
mkdir -p "$state/home/.mlflow"
if [ ! -e "$state/home/.mlflow/credentials" ]; then
	password=$(sed -n 's/^admin_password = //p' "$state/secrets/mlflow_auth")
	printf '[mlflow]\nmlflow_tracking_username = operator\nmlflow_tracking_password = %s\n' "$password" >"$state/home/.mlflow/credentials"
	echo "MLflow's page: user operator, password $password"
fi
random | keep mlflow_secret
printf '%s=' "$(random)" | keep fernet_key # Fernet wants the padding
random | keep api_secret_key
random | keep jwt_secret
if [ ! -e "$state/home/airflow/passwords.json" ]; then
	password=$(random)
	printf '{"operator": "%s"}\n' "$password" >"$state/home/airflow/passwords.json"
	echo "Airflow's page: user operator, password $password"
fi
if [ "$(id -u)" = 0 ]; then
	chown -R "$uid:$gid" "$state/home" "$state/mlflow" "$state/postgres" "$state/secrets" "$state/clusters" "$state/logs"
	chown -R "$serve:$gid" "$state/run" "$state/serve"
fi
chmod 750 "$state/home/bundles" "$state/serve"
chmod 755 "$state/clusters" "$state/logs" "$state/run"
echo "ready: cluster files go to $state/clusters, job logs to $state/logs"
