#!/usr/bin/env bash
# A base install without extras must serve --help, validate, report and verify.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=.venv-base/bin/python
if [ ! -x "$python" ]; then
  python3 -m venv .venv-base
  "$python" -m pip install -qq --upgrade pip
fi
"$python" -m pip install -qq --constraint constraints.txt .
cp -r reports/sample "$work/run"
cd "$work"
python="$OLDPWD/$python"
"$python" -m evalspec --help >/dev/null
"$python" -m evalspec validate "$OLDPWD/suites/predictions/evalspec.yaml" >/dev/null
"$python" -m evalspec report run >/dev/null
"$python" -m evalspec verify run >/dev/null
for name in torch onnxruntime sklearn pandas datasets transformers; do
  if "$python" -c "import $name" 2>/dev/null; then echo "the base install brought $name"; exit 1; fi
done
echo "base install: --help, validate, report and verify work without extras"
