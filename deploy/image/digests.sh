#!/bin/sh
# Asks the registry which digests the base images have today, and writes digests.env beside this file: NAME=image:tag@sha256:...
# Look at what changed before you commit it. Needs `docker buildx`; nothing is written unless every image was found.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
new=$(mktemp "$here/.digests.XXXXXX")
trap 'rm -f "$new"' EXIT

for one in PYTHON_IMAGE=python:3.12.12-slim-bookworm POSTGRES_IMAGE=postgres:17.6-bookworm; do
	image=${one#*=}
	digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
	case $digest in
	sha256:????????????????????????????????????????????????????????????????) echo "$one@$digest" >>"$new" ;;
	*) echo "digests: expected a digest of $image, found '$digest'" >&2 && exit 1 ;;
	esac
done
chmod 644 "$new"
mv "$new" "$here/digests.env"
cat "$here/digests.env"
