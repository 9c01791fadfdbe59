#!/bin/sh
# usage: try-wheel.sh PYTHON FOLDER: installs the wheel of dist into a clean environment in FOLDER, and uses it.
set -eux
rm -rf "$2"
"$1" -m venv "$2"
"$2/bin/pip" install --quiet --disable-pip-version-check dist/bayplan-*.whl
"$2/bin/python" --version
"$2/bin/bayplan" --version
"$2/bin/bayplan" config show > "$2/config.yaml"
"$2/bin/bayplan" config check "$2/config.yaml"
"$2/bin/bayplan" explain -f docs/cluster.yaml --pod web
"$2/bin/pip" check
