#!/usr/bin/env bash
# Installs evalspec with its extras: EXTRAS ("onnx,sklearn"), VERSION ("==0.3.0"; empty: the checkout in ACTION).
set -euo pipefail
: "${EXTRAS:=all}" "${VERSION:=}"
if ! [[ "$EXTRAS" =~ ^[a-z0-9,\ ]*$ ]]; then
  echo "extras: '$EXTRAS' is not a list of names such as onnx,sklearn" >&2
  exit 2
fi
extras=${EXTRAS// /}
if [ -n "$VERSION" ]; then
  what="evalspec-gate${extras:+[$extras]}$VERSION"
else
  what="${ACTION:?}${extras:+[$extras]}"
fi
python -m pip install --quiet "$what"
evalspec --version
