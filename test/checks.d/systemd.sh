#!/usr/bin/env bash
# The unit is understood by systemd, which must have nothing to say about it, and is hardened.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v systemd-analyze >/dev/null || {
  echo "systemd-analyze is missing: apt-get install systemd" >&2
  exit 1
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The program that the unit starts need not be installed on this machine.
sed 's#/usr/local/bin/syncd#/bin/true#' deploy/systemd/syncd.service >"$dir/syncd.service"
# verify ends with 0 even for a key it does not know, but says so.
said=$(systemd-analyze verify "$dir/syncd.service" 2>&1) || true
[ -z "$said" ] || {
  echo "$said" >&2
  exit 1
}
systemd-analyze security --offline=true --threshold=15 "$dir/syncd.service" | tail -1
