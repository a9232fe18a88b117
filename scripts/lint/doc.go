// Command lint checks the house rules that compilers do not: which package may import what, how long files and functions
// may be, where doc.go, init and the environment belong, and whether the documents' links and make targets exist.
//
//	go run ./scripts/lint          # one line a finding, exit 1 when there is any
//	go run ./scripts/lint -size    # lines of code and tests a package, the longest file and function
//
// It parses every .go file of the tree, whatever its build tags, and runs nothing. Rules are tables in rules.go; a new
// package or dependency is an error until it has a place there.
package main
