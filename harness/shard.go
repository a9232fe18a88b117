package harness

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Shard is one part of a run that several machines share: of every stage, the work units u with u % Of == Index-1. The zero value is
// the whole run.
type Shard struct{ Index, Of int }

var shardForm = regexp.MustCompile(`^([1-9][0-9]{0,4})/([1-9][0-9]{0,4})$`)

// ParseShard reads "2/5", the second of five parts.
func ParseShard(s string) (Shard, error) {
	m := shardForm.FindStringSubmatch(s)
	if m == nil {
		return Shard{}, usagef("give 2/5 for the second of five parts", "shard %q", s)
	}
	i, _ := strconv.Atoi(m[1]) // five digits
	n, _ := strconv.Atoi(m[2])
	if i > n {
		return Shard{}, usagef("parts count from 1 to their number", "shard %d of %d", i, n)
	}
	return Shard{i, n}, nil
}

// String is what ParseShard reads; empty for the whole run.
func (s Shard) String() string {
	if s.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Of)
}

// suffix is the shard's part of a file's name.
func (s Shard) suffix() string {
	if s.Of == 0 {
		return ""
	}
	return fmt.Sprintf(".shard%dof%d", s.Index, s.Of)
}

func (s Shard) has(unit int) bool { return s.Of == 0 || unit%s.Of == s.Index-1 }

// size is how many of n prompts in units of unit the shard has.
func (s Shard) size(n, unit int) int {
	total := 0
	for from := 0; from < n; from += unit {
		if s.has(from / unit) {
			total += min(unit, n-from)
		}
	}
	return total
}

// shardInfo is what a part says in its header of the run beside the plan: what a merged result has to know and trials do not hold.
type shardInfo struct {
	Tool        Tool            `json:"tool"`
	Command     []string        `json:"command"`
	Model       ModelInfo       `json:"model"`
	Prompts     PromptInfo      `json:"prompts"`
	Refused     []PromptFailure `json:"refused,omitempty"`
	Environment Environment     `json:"environment"`
}

// checkShard refuses what cannot be computed in parts: what experiments ask rests on all trials of the detect stage.
func (o *Options) checkShard() error {
	switch {
	case o.Shard == (Shard{}):
	case len(o.Stages) > 1:
		return usagef("detect first (and merge its parts), then `headscope knockout MODEL --heads RESULT --shard "+o.Shard.String()+"`",
			"shard %s of a study of %d stages: what the second asks rests on the whole first", o.Shard, len(o.Stages))
	case o.AgreementPrompts != nil:
		return usagef("leave one of them out", "shard %s with the agreement stage: its knock-outs rest on the whole detection", o.Shard)
	case o.Out == "":
		return usagef("name a folder with --out", "shard %s without a folder to write to", o.Shard)
	}
	return nil
}

// ShardRun is what a shard has done.
type ShardRun struct {
	Path  string // of its trials
	N     Counts
	First string // the first trial that failed, and why
}

// RunShard carries the study's shard out, going on from what its trials file holds. There is no result before all parts are merged;
// the example that Run ends with is left to the same command without a shard, once they are.
func (s *Study) RunShard(ctx context.Context) (run *ShardRun, err error) {
	r, e, err := s.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.file.close()) }()
	if err := s.gather(ctx, r, e); err != nil {
		return nil, err
	}
	run = &ShardRun{Path: s.TrialsPath()}
	stages := []string{StageRepeat, StageDetect, StageObserve, StageCausal}
	stages = append(append(stages, observations[:]...), testStages[:]...)
	for _, x := range s.Plan.experiments() {
		stages = append(stages, ledgerStage(x))
	}
	for _, stage := range append(stages, StageTexts, StageVariants) {
		trials := e.trials[stage]
		for i := range trials {
			t := &trials[i]
			if run.N.add(t); t.Outcome == Failed && run.First == "" {
				run.First = t.Prompt + " under " + t.Condition + ": " + t.Error
			}
		}
	}
	return run, nil
}
