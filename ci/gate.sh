#!/usr/bin/env bash
# Runs a gate in CI: measures, writes the summary of the step, compares with an earlier run, says where the report is.
# Its inputs are variables of the environment, so that nothing of them is ever read as code:
#   EVALSPEC_SPEC     the spec (needed)
#   EVALSPEC_ARGS     further options of `evalspec run`, split at spaces: "--only quality"
#   EVALSPEC_TRUST    true: pass --trust
#   EVALSPEC_OUTPUT   folder of the run (default: evalspec-run)
#   EVALSPEC_COMPARE  folder of an earlier run to compare with; a folder that is not there is skipped
#   EVALSPEC_COMMENT  file that the comment for the change is written to (default: OUTPUT/comment.md)
# Where they are set, it writes to GITHUB_STEP_SUMMARY and GITHUB_OUTPUT. Its exit code is that of `evalspec run`.
set -uo pipefail

spec=${EVALSPEC_SPEC:?name the spec in EVALSPEC_SPEC}
output=${EVALSPEC_OUTPUT:-evalspec-run}
compare=${EVALSPEC_COMPARE:-}
comment=${EVALSPEC_COMMENT:-$output/comment.md}
words=()
read -r -a words <<< "${EVALSPEC_ARGS:-}" || true
[ "${EVALSPEC_TRUST:-false}" = true ] && words+=(--trust)

evalspec run "$spec" --output "$output" --quiet ${words[@]+"${words[@]}"}
code=$?

{
  echo "exit-code=$code"
  echo "report=$output"
} >> "${GITHUB_OUTPUT:-/dev/null}"

if [ -f "$output/summary.md" ]; then
  cat "$output/summary.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
  # A mark by which the comment of an earlier push is found and replaced.
  echo "<!-- evalspec: $spec -->" > "$comment"
  if [ -n "$compare" ] && [ -f "$compare/record.json" ]; then
    evalspec compare "$compare" "$output" --markdown --output "$output/comparison.html" >> "$comment"
    compared=$?
    # 0, 1 and 2 are answers; anything else is a fault of the comparison, which must not hide the verdict.
    [ "$compared" -le 2 ] || echo "The comparison with $compare failed (exit code $compared)." >> "$comment"
  else
    [ -z "$compare" ] || echo "There is no run in $compare to compare with." >&2
    evalspec report "$output" --markdown >> "$comment"
  fi
  echo "comment=$comment" >> "${GITHUB_OUTPUT:-/dev/null}"
fi

exit "$code"
