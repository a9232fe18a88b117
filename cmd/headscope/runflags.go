package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

// runFlags say which part of an experiment is run, or that none is.
type runFlags struct {
	config configFlag
	shard  string
	dryRun string
}

func (r *runFlags) add(fs *pflag.FlagSet) {
	r.config.add(fs)
	fs.StringVar(&r.shard, "shard", "", "I/N: compute the I-th of N parts of one stage's work units; headscope merge puts the parts together")
	fs.StringVar(&r.dryRun, "dry-run", "", "compute no trial and write nothing: print the plan, its cost and its power; =plan leaves out the calibration on the model")
	fs.Lookup("dry-run").NoOptDefVal = dryRunCalibrated
}

// Forms of --dry-run.
const (
	dryRunCalibrated = "calibrate"
	dryRunPlan       = "plan"
)

func (r *runFlags) set(o *harness.Options) (err error) {
	switch r.dryRun {
	case "", dryRunCalibrated, dryRunPlan:
	default:
		return &usageError{fmt.Errorf("--dry-run=%s", r.dryRun), "give --dry-run, or --dry-run=plan"}
	}
	if r.shard != "" {
		o.Shard, err = harness.ParseShard(r.shard)
	}
	return err
}

// runShard carries one part out; there is no result to print.
func (e *experimentFlags) runShard(ctx context.Context, a *app, s *harness.Study, p *progress) error {
	run, err := s.RunShard(ctx)
	p.close()
	if err != nil {
		return &resumable{err, s.TrialsPath()}
	}
	if _, err := fmt.Fprintln(a.out, run.Path); err != nil {
		return err
	}
	a.note("%d trials; headscope merge puts the parts together when all are there", run.N.Planned)
	if run.N.Failed > 0 {
		return someFailed(run.N, run.First, run.Path)
	}
	return nil
}

// printEstimate prints what a run would be.
func (e *experimentFlags) printEstimate(ctx context.Context, a *app, s *harness.Study) error {
	est, err := s.DryRun(ctx, e.dryRun == dryRunCalibrated)
	if err != nil {
		return err
	}
	if e.format == "json" {
		return a.json(est)
	}
	return est.Write(a.out)
}
