# Installs amp-migrate from this checkout of the action, beside what the job has installed.
# -I: a folder `pip` or `venv` in the repository that is looked at must not be taken for Python's.
set -euo pipefail

python=$(command -v python3 || command -v python)
environment=$RUNNER_TEMP/amp-migrate/environment
"$python" -I -m venv "$environment"
scripts=$environment/bin
if [ -d "$environment/Scripts" ]; then scripts=$environment/Scripts; fi # on Windows
"$scripts/python" -I -m pip install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH"
