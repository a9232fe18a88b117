// Package builtin holds the model inside the binary: a small decoder with a real retrieval head, which harness/pretrain has trained, so that
// everything runs with nothing else on the machine.
//
// It is a checkpoint like any other, a folder in Hugging Face's layout that happens to be in memory: loader.Open reads it under the name
// [Needle], and README.md beside this file says how it was made and what it can do.
//
//	c, err := loader.Open(builtin.Needle)
//
// Place in the map: below loader, which alone reads it; imports nothing.
package builtin
