#!/bin/bash
# usage (in a box): base.sh FOLDER: FOLDER/base.tar, a Debian with its own Python 3.13, which stands in for
# the image that the Dockerfile starts FROM. It trusts whom this machine trusts, for a mirror of PyPI.
set -eu
cd "$1"
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie root http://deb.debian.org/debian
for name in python python3; do ln -sf /usr/bin/python3.13 "root/usr/local/bin/$name"; done
trusted=/etc/ssl/certs/ca-certificates.crt
if [ -f $trusted ]; then cat $trusted > root$trusted; fi
tar -C root -cf base.tar .
rm -rf root
