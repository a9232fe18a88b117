#!/bin/sh
# Runs every fuzz target for FUZZTIME (default 30s), or only those whose name matches the first argument.
set -eu

pattern=${1:-.}
count=0
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
	dir=$(go list -f '{{.Dir}}' "$package")
	for target in $(cat "$dir"/*_test.go | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' | grep -e "$pattern" || :); do
		count=$((count + 1))
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "$package"
	done
done
if [ "$count" -eq 0 ]; then
	echo "error: no fuzz target matches $pattern" >&2
	exit 1
fi
