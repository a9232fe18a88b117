// Command builtin trains the embedded model, loader/builtin, and writes its prompt sets.
//
//	go run ./scripts/builtin                            # the embedded model: seed 1
//	go run ./scripts/builtin -seed 2 -model results/two # another seed, into another folder
//
// A run that was interrupted goes on where it was saved last.
package main
