# Names the cache of what pip downloads: its folder, and a key for one system, one Python and one version of the action.
set -euo pipefail

python=$(command -v python3 || command -v python)
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/amp_migrate/__init__.py")
system=$("$python" -I -c 'import platform; print(platform.python_version(), platform.system(), platform.machine(), sep="-")')
{
  echo "path=$RUNNER_TEMP/amp-migrate/downloads"
  echo "key=amp-migrate-$version-python$system"
} >>"$GITHUB_OUTPUT"
