#!/bin/sh
# Runs go test on every package: those that open a backend one at a time (XLA and the Go backend each use all cores), the
# others together. Arguments go to go test.
#
#   scripts/test.sh [go test flags]
set -eu

list=$(go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./...)
backend=$(printf '%s\n' "$list" | awk '$1 ~ /\.test$/ && / github\.com\/gomlx\/compute[ \/]/ {sub(/\.test$/, "", $1); print $1}')
plain=$(printf '%s\n' "$list" | awk '$1 ~ /\.test$/ && !/ github\.com\/gomlx\/compute[ \/]/ {sub(/\.test$/, "", $1); print $1}')
if [ -z "$plain$backend" ]; then
	echo "error: no package has tests" >&2
	exit 1
fi

rc=0
if [ -n "$plain" ]; then
	# shellcheck disable=SC2086 # a list of import paths
	go test -timeout 15m "$@" $plain || rc=1
fi
if [ -n "$backend" ]; then
	# shellcheck disable=SC2086
	go test -p 1 -timeout 30m "$@" $backend || rc=1
fi
exit "$rc"
