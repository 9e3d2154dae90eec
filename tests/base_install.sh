#!/usr/bin/env bash
# A base install without extras must serve --help, validate, report and verify, and run what needs no extra.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python="$here/.venv-base/bin/python"
if [ ! -x "$python" ]; then
  "${PYTHON:-python3}" -m venv .venv-base
  "$python" -m pip install -qq --upgrade pip
fi
# pip installs a local folder again, even where its version is the same.
"$python" -m pip install -qq --no-compile --constraint constraints.txt .
cp -r reports/sample suites/predictions "$work"
cd "$work"
"$python" -m evalspec --help >/dev/null
"$python" -m evalspec validate predictions/evalspec.yaml >/dev/null
"$python" -m evalspec report sample >/dev/null
"$python" -m evalspec run predictions/evalspec.yaml --output run --quiet >/dev/null
"$python" -m evalspec verify run >/dev/null
for name in torch onnxruntime sklearn pandas datasets transformers; do
  if "$python" -c "import $name" 2>/dev/null; then echo "the base install brought $name"; exit 1; fi
done
echo "base install: --help, validate, report, run and verify work without extras"
