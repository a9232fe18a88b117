package harness

// Set by the linker (-ldflags -X); a build that was not told says so rather than guess.
var (
	Version = "unknown" // tag, or devel
	Commit  = "unknown" // full hash
	Dirty   = "unknown" // "true" where the working tree had changes, else "false"
)
