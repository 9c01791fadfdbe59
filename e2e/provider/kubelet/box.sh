#!/bin/bash
# usage: box.sh NAME DIR "CGROUP..." PROGRAM [ARG...]
# Runs PROGRAM as process 1 of new namespaces: when it ends, the kernel ends all that the box holds.
# With BOX_NET=1 the box has a network of its own; file descriptor 9 is that of the machine, always.
# In the box /run is empty, what is written to /var, /etc, /opt and /usr/libexec goes to DIR, and the
# sysctls that a kubelet sets are plain files. The root of its cgroups is CGROUP..., made by box.py.
set -eu
if [ "$1" != --inside ]; then
    exec 9< /proc/self/ns/net
    for group in $3; do echo $$ > "$group/cgroup.procs"; done
    exec unshare --cgroup --mount --pid --uts --ipc ${BOX_NET:+--net} --fork --kill-child \
        --propagation private --mount-proc "$0" --inside "$@"
fi
name=$2 dir=$3; shift 4
hostname "${name//_/-}" # a name of mktemp may have what a hostname may not
umount -R /sys/fs/cgroup
if [ -n "${BOX_NET-}" ]; then mount -t sysfs sysfs /sys; fi # it shows the interfaces of who mounts it
if grep -q '^[1-9]' /proc/self/cgroup; then # version 1, perhaps with version 2 beside it
    mount -t tmpfs -o mode=755 cgroups /sys/fs/cgroup
    while IFS=: read -r _ controllers _; do
        [ -n "$controllers" ] || continue
        target=/sys/fs/cgroup/${controllers#name=} options=$controllers
        [ "$controllers" = "${controllers#name=}" ] || options=none,$controllers
        mkdir -p "$target"
        mount -t cgroup -o "$options" cgroup "$target"
    done < /proc/self/cgroup
else # a group that limits others may hold no process
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir /sys/fs/cgroup/init
    echo $$ > /sys/fs/cgroup/init/cgroup.procs
    for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
        echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control
    done
fi
mount -t tmpfs -o mode=755 run /run
for top in var etc opt usr/libexec; do # containerd, dockerd and kubelet make folders in each
    mkdir -p "$dir/own/$top" "$dir/work/$top" "/$top"
    mount -t overlay -o "lowerdir=/$top,upperdir=$dir/own/$top,workdir=$dir/work/$top" overlay "/$top"
done
for sysctl in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    copy=$dir/own/${sysctl//\//.}
    cat "/proc/sys/$sysctl" > "$copy"
    mount --bind "$copy" "/proc/sys/$sysctl"
done
exec "$@"
