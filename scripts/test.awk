# Reads go test -v. Prints one line for a package that passes and, for one that fails, what its failed tests said. The tests that
# were skipped go to the file notrun, each with its reason.

function strip(name) { sub(/ \([0-9.]+s\)$/, "", name); return name }

# keep files a line under a test, or under the package as a whole.
function keep(test, line) { lines++; text[lines] = line; owner[lines] = test }

function reset(    i) {
	for (i = 1; i <= lines; i++) { delete text[i]; delete owner[i] }
	for (i in failed) delete failed[i]
	for (i in last) delete last[i]
	lines = skips = 0
	test = ""
}

# wanted: lines of a test that failed or of none; a test that never ended (panic, timeout) counts as failed.
function show(    i) {
	for (i = 1; i <= lines; i++) if (owner[i] == "" || owner[i] in failed || !(owner[i] in ended)) print text[i]
}

# said writes a line for each reason, with the first test that gave it.
function said(n, package,    i, why, count, first) {
	for (i = 1; i <= n; i++) {
		why = last[skipped[i]]
		if (count[why]++ == 0) first[why] = skipped[i]
	}
	for (why in count) print "  " package " " first[why] (count[why] > 1 ? " and " count[why] - 1 " more" : "") ": " why >> notrun
}

/^=== (RUN|NAME|CONT) / { test = $3; next }
/^=== / { next }
/^ *--- (PASS|FAIL|SKIP): / {
	name = $3
	ended[name] = 1
	if ($2 == "FAIL:") { failed[name] = 1; keep(name, $0) }
	if ($2 == "SKIP:") skipped[++skips] = name
	next
}
/^(ok|FAIL|\?)  *\t/ || /^FAIL\t/ {
	if ($1 == "FAIL") show()
	print
	said(skips, $2)
	reset()
	for (i in ended) delete ended[i]
	fflush()
	next
}
/^(PASS|FAIL)$/ { next }
/^coverage: / { next }
{
	keep($0 ~ /^    / ? test : "", $0)
	reason = $0
	sub(/^ +([A-Za-z0-9_]+\.go:[0-9]+: )?/, "", reason)
	if ($0 ~ /^    /) last[test] = reason
}
END { show() }
