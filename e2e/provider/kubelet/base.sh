#!/bin/bash
# usage (in a box): base.sh FOLDER SUITE: FOLDER/base.tar, a Debian with its own Python, which stands in for
# the image that the Dockerfile starts FROM. It trusts whom this machine trusts, for a mirror of PyPI.
set -eu
cd "$1"
script=$DEBOOTSTRAP_DIR/scripts/$2
[ -e "$script" ] || script=$DEBOOTSTRAP_DIR/scripts/sid  # a suite newer than debootstrap
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$2" root http://deb.debian.org/debian "$script"
python=$(readlink root/usr/bin/python3)
for name in python python3; do ln -sf "/usr/bin/$python" "root/usr/local/bin/$name"; done
trusted=/etc/ssl/certs/ca-certificates.crt
if [ -f $trusted ]; then cat $trusted > root$trusted; fi
tar -C root -cf base.tar .
rm -rf root
