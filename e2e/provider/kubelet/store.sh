#!/bin/bash
# usage (in a box): store.sh ROOT TAR...: containerd's folder with these images unpacked, to start nodes from.
set -eu
root=$1; shift
echo 'version = 3' > /run/containerd.toml
containerd --config /run/containerd.toml --root "$root" --log-level warn &
containerd=$!
for _ in $(seq 300); do
    if [ -S /run/containerd/containerd.sock ]; then break; fi
    sleep 0.1
done
for tar; do ctr --namespace k8s.io images import "$tar"; done
kill "$containerd"
wait "$containerd" || true
