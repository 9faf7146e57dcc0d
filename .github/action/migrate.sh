# Runs amp-migrate once: annotations, the job's summary, the patch, and what the next steps need to know.
set -euo pipefail

folder=$RUNNER_TEMP/amp-migrate
scripts=$folder/environment/bin
if [ -d "$folder/environment/Scripts" ]; then scripts=$folder/environment/Scripts; fi # on Windows
report=$folder/report.md
patch=$folder/amp-migrate.patch
rm -f "$report" "$patch"

has() { git cat-file -e "$1^{commit}" 2>/dev/null; }

shallow() { [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = true ]; }

# A commit and those before it, `depth` in all, in a clone that was made without them.
bring() { git fetch --quiet --no-tags --depth="$2" origin "$1" || true; }

# What a pull request is compared with. GitHub checks out its merge with the base branch, and the first parent of that
# merge is exact: the event's base may be older, and others' work would count as changed. A clone of depth 1 has neither.
base() {
  local head
  head=$(git rev-parse HEAD)
  if [ -n "$HEAD" ] && [ "$head" != "$HEAD" ] && ! has "HEAD^2" && shallow; then bring "$head" 2; fi
  if [ -n "$HEAD" ] && [ "$(git rev-parse --quiet --verify "HEAD^2")" = "$HEAD" ]; then
    git rev-parse "HEAD^1"
    return
  fi
  if ! has "$BASE" && shallow; then bring "$BASE" 1; fi
  echo "$BASE"
}

since=$INPUT_SINCE
if [ -z "$since" ] && [ -n "$BASE" ]; then since=$(base); fi
if [ -n "$since" ] && ! has "$since"; then
  echo "::error title=amp-migrate::The revision to compare with is not in the clone: actions/checkout needs fetch-depth: 0"
  exit 2
fi

# --check: plain float32 loops are reported, and changed only where they are selected, as in a pre-commit hook.
arguments=(migrate --check --output-format github --patch "$patch")
if [ -n "$since" ]; then arguments+=("--since=$since"); fi
while read -r -a words; do
  arguments+=(${words[@]+"${words[@]}"})
done <<<"$INPUT_ARGS"
arguments+=(--)
while IFS= read -r path; do
  path=${path%$'\r'}
  if [ -n "$path" ]; then arguments+=("$path"); fi
done <<<"$INPUT_PATHS"

code=0
GITHUB_STEP_SUMMARY=$report "$scripts/python" -I -m amp_migrate "${arguments[@]}" \
  >"$folder/annotations" 2>"$folder/messages" || code=$?
cat "$folder/annotations"
# Messages may quote the repository that is looked at; a line of them must not be a command to the runner.
token=$("$scripts/python" -I -c "import uuid; print(uuid.uuid4().hex)")
echo "::stop-commands::$token"
cat "$folder/messages"
echo "::$token::"

if [ ! -e "$report" ]; then
  echo "::error title=amp-migrate::It could not run; the reason is in the log"
  exit "$code"
fi
cat "$report" >>"$GITHUB_STEP_SUMMARY"
{
  echo "code=$code"
  echo "since=$since"
  echo "report=$report"
  if [ -s "$patch" ]; then
    echo "changed=true"
    echo "patch=$patch"
  else
    echo "changed=false"
  fi
  if [ -s "$folder/annotations" ]; then echo "found=true"; else echo "found=false"; fi
} >>"$GITHUB_OUTPUT"
