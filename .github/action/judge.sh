# Judges the migrations among the changes: annotations at the lines, and the verdict for the next steps.
set -euo pipefail

folder=$RUNNER_TEMP/amp-migrate
scripts=$folder/environment/bin
if [ -d "$folder/environment/Scripts" ]; then scripts=$folder/environment/Scripts; fi # on Windows

arguments=(judge --output-format github "--since=$SINCE" --)
while IFS= read -r path; do
  path=${path%$'\r'}
  if [ -n "$path" ]; then arguments+=("$path"); fi
done <<<"$INPUT_PATHS"

code=0
"$scripts/python" -I -m amp_migrate "${arguments[@]}" >"$folder/judged" 2>"$folder/verdict" || code=$?
cat "$folder/judged"
# The verdict may quote the repository that is looked at; a line of it must not be a command to the runner.
token=$("$scripts/python" -I -c "import uuid; print(uuid.uuid4().hex)")
echo "::stop-commands::$token"
cat "$folder/verdict"
echo "::$token::"

case $(tail -n 1 "$folder/verdict") in
  same:*) verdict=same ;;
  wrong:*) verdict=wrong ;;
  undecided:*) verdict=undecided ;;
  *)
    echo "::error title=amp-migrate::The changes could not be judged; the reason is in the log"
    exit "$code"
    ;;
esac
if [ -s "$folder/judged" ]; then
  {
    echo
    echo '```text'
    tail -n 1 "$folder/verdict" | tr -d '`'
    echo '```'
  } >>"$GITHUB_STEP_SUMMARY"
fi
echo "verdict=$verdict" >>"$GITHUB_OUTPUT"
