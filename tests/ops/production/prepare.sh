# What the page takes for granted, in the shell that follows it: the repository, and answers of the network. cargo has
# built already, and apt-get finds the packages that script/program has unpacked.
mkdir -p /usr/local/src/railbird
(cd "$REPOSITORY" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
  tar --create --null --files-from=- --ignore-failed-read) | tar --extract --directory=/usr/local/src/railbird
cat >/usr/local/bin/cargo <<'CARGO'
#!/bin/sh
install -D "$BUILT" target/release/railbird
CARGO
# Debian starts the services of packages that are installed.
rm -f /usr/sbin/policy-rc.d
cat >/usr/local/bin/apt-get <<'APT'
#!/bin/bash
shopt -s nullglob
files=()
for package in "${@:3}"; do
  program=$(printenv "RAILBIRD_${package^^}") || continue
  files+=("${program%/*}/packages"/*.deb)
done
((${#files[@]} == 0)) || dpkg --force-depends --force-unsafe-io --no-triggers --install "${files[@]}" >/tmp/apt.log 2>&1 ||
  { cat /tmp/apt.log; exit 1; }
APT
chmod +x /usr/local/bin/{cargo,apt-get}
