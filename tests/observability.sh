#!/bin/sh
# Tests the alert rules with promtool, if there is one: of the system, or in Debian's package prometheus.
set -eu
cd "$(dirname "$0")/../deploy/prometheus"
promtool=$(command -v promtool || true)
if [ -z "$promtool" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  if (cd "$folder" && apt-get download -qq prometheus) >/dev/null 2>&1 && dpkg-deb -x "$folder"/prometheus_*.deb "$folder"; then
    promtool=$folder/usr/bin/promtool
  fi
fi
if [ -z "$promtool" ]; then
  echo 'skipped: there is no promtool, and the package prometheus cannot be downloaded'
  exit 0
fi
"$promtool" check rules penstock-alerts.yml
"$promtool" test rules penstock-alerts-test.yml
