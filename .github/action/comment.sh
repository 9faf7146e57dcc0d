# One comment on the pull request: made when there is something to say, and kept up to date from then on.
set -euo pipefail

marker='<!-- amp-migrate -->'
comments=repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments
body=$RUNNER_TEMP/amp-migrate/comment.md
{
  echo "$marker"
  cat "$REPORT"
} >"$body"

refused() {
  # A pull request from a fork has a token that only reads: that is no reason to fail.
  echo "::warning title=amp-migrate::The comment could not be written: that needs gh, and the permission pull-requests: write"
  exit 0
}

# The marker alone could be anybody's: only what the token's own account wrote is touched.
own=".[] | select(.user.login == \"github-actions[bot]\" and (.body | startswith(\"$marker\"))) | .id"
found=$(gh api --paginate "$comments?per_page=100" --jq "$own") || refused
id=${found%%$'\n'*}
if [ -n "$id" ]; then
  gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$body" || refused
elif [ "$HAS_FOUND" = true ]; then
  gh api --silent --method POST "$comments" -F "body=@$body" || refused
fi
