#!/bin/sh
# Golden comparisons and backend tests on the device named by HEADSCOPE_DEVICE (default cuda), which the backend tests read.
set -eu

HEADSCOPE_DEVICE=${HEADSCOPE_DEVICE:-cuda}
export HEADSCOPE_DEVICE

folders=$(find . -path '*/testdata/*' -name golden.json -exec dirname {} \; | sort)
if [ -z "$folders" ]; then
	echo "error: no golden folder below testdata" >&2
	exit 1
fi
# shellcheck disable=SC2086 # a list of folders without white space
bin/headscope verify --device "$HEADSCOPE_DEVICE" $folders
scripts/test.sh -count=1
