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
  temp=$(mktemp -d "$root/.tools/temp.XXXXXX")
  trap 'rm -rf "$temp"' EXIT
}

# pip, quietly; what it says lies in $temp/log.
pip() {
  local python=$1 action=$2
  "$python" -m pip "$action" --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes "${@:3}" \
    >>"$temp/log" 2>&1 || give_up "it could not be fetched ($(grep -m 1 '^ERROR' "$temp/log" || echo "pip says nothing"))"
}

# Installs as $1 the program $4 of version $3 of the package $2. The other arguments are the hashes of its wheels.
install_from_wheel() {
  local installed=$1 package=$2 version=$3 program=$4 python=python3
  make_temp
  say "installing ${installed##*/} into .tools"
  if ! python3 -m pip --version >/dev/null 2>&1; then
    python=$temp/venv/bin/python
    python3 -m venv "$temp/venv" >>"$temp/log" 2>&1 || give_up "there is none here, and python3 has neither pip nor venv to fetch it with"
  fi
  { printf '%s' "$package==$version" && printf ' --hash=sha256:%s' "${@:5}" && echo; } >"$temp/requirements.txt"
  pip "$python" download --requirement "$temp/requirements.txt" --dest "$temp"
  python3 - "$temp" "$program" <<'PYTHON'
import glob, shutil, sys, zipfile

folder, program = sys.argv[1:]
(wheel,) = glob.glob(f"{folder}/*.whl")
with zipfile.ZipFile(wheel).open(program) as source, open(f"{folder}/program", "wb") as target:
    shutil.copyfileobj(source, target)
PYTHON
  chmod +x "$temp/program"
  "$temp/program" --version >/dev/null 2>&1 || give_up "the one that was fetched does not run on this machine"
  mv -f "$temp/program" "$installed"
}
