#!/bin/sh
# Runs go test on every package: those that open a backend two at a time (most of their time is compilation on one core), the
# others together. A package that passes is one line, one that fails is shown in full. What did not run is listed at the end.
# Arguments go to go test.
#
#   scripts/test.sh [go test flags]
set -eu

cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

list=$(go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./...)
backend=$(printf '%s\n' "$list" | awk '$1 ~ /\.test$/ && / github\.com\/gomlx\/compute[ \/]/ {sub(/\.test$/, "", $1); print $1}')
plain=$(printf '%s\n' "$list" | awk '$1 ~ /\.test$/ && !/ github\.com\/gomlx\/compute[ \/]/ {sub(/\.test$/, "", $1); print $1}')
if [ -z "$plain$backend" ]; then
	echo "error: no package has tests" >&2
	exit 1
fi

: >"$tmp/notrun"
rc=0
run() { # go test arguments
	{ go test -v "$@" || echo "$?" >"$tmp/failed"; } | awk -v notrun="$tmp/notrun" -f scripts/test.awk || rc=1
	[ ! -e "$tmp/failed" ] || rc=1
}
if [ -n "$plain" ]; then
	# shellcheck disable=SC2086 # a list of import paths
	run -timeout 15m "$@" $plain
fi
if [ -n "$backend" ]; then
	# shellcheck disable=SC2086
	run -p 2 -timeout 30m "$@" $backend
fi
if [ -s "$tmp/notrun" ]; then
	echo "not run:"
	cat "$tmp/notrun"
fi
exit "$rc"
