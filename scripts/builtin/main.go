package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/headscope/headscope/harness/pretrain"
	"github.com/headscope/headscope/loader/decoder"
)

const (
	every   = 50  // steps between two reports
	prompts = 40  // of a prompt set
	tokens  = 124 // of a prompt, at most: with its answer, four tokens, 128
	asked   = 200 // prompts at each depth, for the recall that is printed
)

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "of parameters and data")
	flag.StringVar(&o.model, "model", "loader/builtin/needle", "folder to write the model to")
	flag.StringVar(&o.prompts, "prompts", "", "folder to write the prompt sets to; empty = not at all")
	flag.StringVar(&o.work, "work", "results/pretrain", "folder of the run's state")
	flag.StringVar(&o.device, "device", "auto", "auto, cpu, cuda, cuda:N or go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type options struct {
	seed                         uint64
	model, prompts, work, device string
}

func (o *options) run(ctx context.Context) error {
	if o.prompts != "" {
		if err := writePrompts(o.prompts); err != nil {
			return err
		}
	}
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: o.device})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.work, 0o777); err != nil {
		return err
	}
	state := filepath.Join(o.work, fmt.Sprintf("needle_seed%d.safetensors", o.seed))
	recipe := pretrain.Needle(o.seed)
	t, err := pretrain.Resume(be, recipe, state)
	if errors.Is(err, fs.ErrNotExist) {
		t, err = pretrain.New(be, recipe)
	}
	if err != nil {
		return err
	}
	defer t.Close()
	start := time.Now()
	err = t.Run(ctx, every, func(p pretrain.Progress) error {
		recall, err := t.Recall(pretrain.Validate, 0.5, 32, tokens, 0)
		if err != nil {
			return err
		}
		fmt.Printf("%5d of %d  %4.0f s  rate %.5f  loss %.4f  gradient %.2f  recall %.2f\n", p.Step, p.Steps, time.Since(start).Seconds(), p.Rate, p.Loss, p.Norm, recall)
		return t.Save(state)
	})
	if err != nil {
		return err
	}
	for i := range 11 {
		depth := float64(i) / 10
		recall, err := t.Recall(pretrain.Test, depth, asked, tokens, 1)
		if err != nil {
			return err
		}
		fmt.Printf("depth %.1f: recall %.3f on %d held-out prompts\n", depth, recall, asked)
	}
	return t.Export(o.model)
}

func writePrompts(dir string) error {
	task := pretrain.NewTask()
	for name, split := range map[string]pretrain.CodeSplit{"needle128.jsonl": pretrain.Test, "needle128_detect.jsonl": pretrain.Detect} {
		var b bytes.Buffer
		if err := task.WritePrompts(&b, split, prompts, tokens); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return nil
}
