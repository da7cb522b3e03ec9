#!/bin/sh
# Start the tracking server on this machine, over the same store that the nights write to.
#   mlflow/server/start.sh [PORT]        RUNCAST_HOME names the home (default ./var), MLFLOW_TRACKING_URI another database
# Behind a name other than localhost, MLflow answers 403 unless the name is allowed, with and without the port:
#   RUNCAST_MLFLOW_HOSTS="mlflow,mlflow:5000" RUNCAST_MLFLOW_BIND=0.0.0.0 mlflow/server/start.sh
# Everybody who reaches it gives a password: RUNCAST_MLFLOW_AUTH names MLflow's settings of its accounts (the form is in prepare.sh), and
# RUNCAST_MLFLOW_SECRET the file of the key of its sessions. Clients have theirs in ~/.mlflow/credentials.
# RUNCAST_MLFLOW_ARTIFACTS names where runs' and models' files go (default: mlartifacts below the home), for example s3://BUCKET.
set -eu
umask 027 # what runs hold names who ran what: the group may read, others nothing
port=${1:-5000}
home=${RUNCAST_HOME:-var}
mkdir -p "$home"
home=$(cd "$home" && pwd)
bind=${RUNCAST_MLFLOW_BIND:-127.0.0.1}
hosts=${RUNCAST_MLFLOW_HOSTS:-}

export MLFLOW_DISABLE_TELEMETRY=true
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false # 2.4 GiB of job workers that nothing here uses; 0.5 GiB without

for name in RUNCAST_MLFLOW_AUTH RUNCAST_MLFLOW_SECRET; do
	eval "file=\${$name:-}"
	if [ ! -r "$file" ]; then
		echo "$name: no readable file ('$file'). The server asks for a password; deploy/compose/prepare.sh FOLDER makes both files." >&2
		exit 2
	fi
done
export MLFLOW_AUTH_CONFIG_PATH="$RUNCAST_MLFLOW_AUTH"
MLFLOW_FLASK_SERVER_SECRET_KEY=$(cat "$RUNCAST_MLFLOW_SECRET") # MLflow reads it from nowhere else
export MLFLOW_FLASK_SERVER_SECRET_KEY

case ${MLFLOW_TRACKING_URI:-} in
http*) echo "MLFLOW_TRACKING_URI names a server already: $MLFLOW_TRACKING_URI" >&2 && exit 2 ;;
esac

set -- server \
	--backend-store-uri "${MLFLOW_TRACKING_URI:-sqlite:///$home/mlflow.db}" \
	--artifacts-destination "${RUNCAST_MLFLOW_ARTIFACTS:-file://$home/mlartifacts}" \
	--host "$bind" --port "$port" --workers 1 --app-name basic-auth
if [ -n "$hosts" ]; then
	set -- "$@" --allowed-hosts "$hosts,localhost,localhost:$port,127.0.0.1,127.0.0.1:$port"
fi
exec "${RUNCAST_MLFLOW:-mlflow}" "$@"
