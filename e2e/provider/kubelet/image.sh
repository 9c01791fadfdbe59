#!/bin/bash
# usage (in a box): image.sh BASE_TAR BASE_NAME DATA PROJECT IMAGE OUT_TAR: `docker build` of PROJECT by a dockerd
# of our own, which leaves the network alone. DATA keeps its layers for the next time.
set -eu
base=$1 name=$2 data=$3 project=$4 image=$5 out=$6
export DOCKER_HOST=unix:///run/docker.sock DOCKER_CONFIG=/run/docker-config DOCKER_BUILDKIT=0
dockerd --data-root "$data" --exec-root /run/docker --pidfile /run/docker.pid --bridge=none \
    --iptables=false --ip6tables=false --log-level=warn &
dockerd=$!
for _ in $(seq 300); do
    if docker version > /dev/null 2>&1; then break; fi
    sleep 0.1
done
docker image inspect "$name" > /dev/null 2>&1 ||
    docker import -c 'CMD ["python3"]' -c 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' "$base" "$name"
# By a name, the layers of the first stage outlive the pruning.
docker build --network host --target build -t "$image-build" "$project"
docker build --network host -t "$image" "$project"
docker save "$image" -o "$out"
docker image prune -f
docker image inspect -f '{{.Size}}' "$name" "$image" > "$out.sizes"
kill "$dockerd"
wait "$dockerd" || true
