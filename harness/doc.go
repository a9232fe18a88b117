// Package harness carries experiments out: it turns a request into a plan, a plan into trials, trials into a result.
//
// A Plan holds everything that decides a run's numbers, and nothing else; its hash, the key, names the run's files. A Trial is one
// prompt under one condition, a line of an append-only file. A Result is computed from trials alone and appears whole or not at all.
// From that follows resumption: the same request has the same key, finds its own trials and goes on behind the last whole unit.
//
//	prompts, err := harness.ReadPrompts(harness.BuiltinPrompts)
//	study, err := harness.NewStudy(ctx, harness.Options{
//		Verb: "study", Stages: []string{harness.StageDetect, harness.StageKnockout},
//		Checkpoint: checkpoint, Model: model, Prompts: prompts.Limit(20),
//		Threshold: 0.1, Controls: 3, Scopes: []decoder.Scope{decoder.ScopeAll}, MaxNew: 16, Batch: 1, Out: "results",
//	})
//	result, err := study.Run(ctx)
//	err = result.Write(os.Stdout, harness.View{})
//
// A trial's outcome is Hit, Decoy, Other, Broken or Failed. Failed means that it could not be carried out (out of memory): it is
// counted apart and never scored. Every number carries its interval, its method and how many it is of; what is undefined is null and
// says why.
//
// The package stands on loader/decoder, heads, patch and stats; cmd/headscope stands on it. It touches no graph and reads no
// environment variable.
package harness
