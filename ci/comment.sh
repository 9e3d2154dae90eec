#!/usr/bin/env bash
# Writes the file COMMENT as a comment on pull request NUMBER of REPOSITORY, over the one of an earlier push.
set -euo pipefail
MARK=$(head -n 1 "$COMMENT")
export MARK
found=$(gh api "repos/$REPOSITORY/issues/$NUMBER/comments" --paginate \
  --jq '.[] | select(.body | startswith(env.MARK)) | .id' | head -n 1)
if [ -n "$found" ]; then
  gh api --silent --method PATCH "repos/$REPOSITORY/issues/comments/$found" --field body=@"$COMMENT"
else
  gh api --silent --method POST "repos/$REPOSITORY/issues/$NUMBER/comments" --field body=@"$COMMENT"
fi
