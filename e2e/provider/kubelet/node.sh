#!/bin/bash
# usage (in a box): node.sh STORE DIR NAME ADDRESS/BITS BRIDGE VETH [ROUTE VIA]...
# One node: a veth to BRIDGE of the machine, containerd with the images of STORE, kube-proxy and kubelet,
# configured by the files that node.py wrote to DIR.
set -eu
store=$1 dir=$2 name=$3 address=$4 bridge=$5 veth=$6; shift 6
machine=/proc/self/fd/9 # its network, see box.sh
ip link set lo up
ip link add eth0 type veth peer name "$veth" netns $machine
nsenter --net=$machine ip link set "$veth" master "$bridge" up
ip address add "$address" dev eth0
ip link set eth0 up
ip route add default via "${address%.*}.1"
while [ $# -gt 0 ]; do ip route add "$1" via "$2"; shift 2; done
exec 9<&-
echo 1 > /proc/sys/net/ipv4/ip_forward

# As links, which costs no time; files that containerd writes in place are copies.
[ "$(stat -c %d "$store")" = "$(stat -c %d "$dir")" ] && how=-al || how=-a
cp $how "$store/." "$dir/containerd"
find "$dir/containerd" -name '*.db' -not -path '*/fs/*' -exec cp --remove-destination {} {}.own \; -exec mv {}.own {} \;

containerd --config "$dir/containerd.toml" > "$dir/containerd.log" 2>&1 &
for _ in $(seq 300); do
    if [ -S /run/containerd/containerd.sock ]; then break; fi
    sleep 0.1
done
kube-proxy --config "$dir/kube-proxy.json" > "$dir/kube-proxy.log" 2>&1 &
exec kubelet --config "$dir/kubelet.json" --kubeconfig "$dir/kubeconfig" --root-dir "$dir/kubelet" \
    --hostname-override "$name" --node-ip "${address%/*}"
