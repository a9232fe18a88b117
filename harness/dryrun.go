package harness

import (
	"context"
	"io"
)

type Estimate struct{}

func (s *Study) DryRun(ctx context.Context, calibrate bool) (*Estimate, error) { return nil, nil }

func (e *Estimate) Write(w io.Writer) error { return nil }
