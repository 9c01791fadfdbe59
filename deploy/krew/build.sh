#!/bin/sh
# usage: build.sh DIST REPOSITORY: of the wheel in DIST the archive and the manifest for krew, into DIST/krew.
set -eu
here=$(dirname "$0")
wheel=$(echo "$1"/bayplan-*-py3-none-any.whl)
version=$(basename "$wheel" -py3-none-any.whl)
version=${version#bayplan-}
rm -rf "$1/krew"
mkdir -p "$1/krew/content"
cp "$wheel" "$here/kubectl-bayplan" "$here/../../LICENSE" "$1/krew/content"
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$1/krew/content" -cf - . |
  gzip -n > "$1/krew/bayplan-krew.tar.gz"
rm -r "$1/krew/content"
sum=$(sha256sum "$1/krew/bayplan-krew.tar.gz" | cut -d' ' -f1)
sed -e '/^#/d' -e "s|VERSION|$version|g" -e "s|REPOSITORY|$2|" -e "s|SHA256|$sum|" \
  "$here/bayplan.yaml" > "$1/krew/bayplan.yaml"
