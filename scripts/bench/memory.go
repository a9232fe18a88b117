package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/headscope/headscope/loader/decoder"
)

// memory is section e: the peak of a process that does section c's work and nothing else, against the peer's.
func (b *bench) memory() error {
	for _, dtype := range b.dtypeList() {
		peak, err := b.childPeak(dtype)
		if err != nil {
			return err
		}
		f := figure{
			Section: "e", What: dtype + " peak memory of detect + knock out", Ours: peak, Unit: "MB", Target: 1, Rounds: 1,
			Note: "compilation included; weights mapped from the file count while resident",
		}
		if b.peer == nil {
			f.NotRun = noPeer
			b.report.add(f)
			continue
		}
		d, err := b.duel(dtype)
		if err != nil {
			return err
		}
		for _, r := range d.peer {
			f.Other = max(f.Other, r.peakMB)
		}
		f.Ratio = intervalOf([]float64{f.Other / f.Ours})
		b.report.add(f)
	}
	return nil
}

func (b *bench) childPeak(dtype string) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(b.ctx, self, "--child", dtype, "--model", b.o.model, "--prompts", b.o.prompts,
		"--n", strconv.Itoa(b.o.n), "--sets", strconv.Itoa(b.o.sets), "--device", b.devices()[0], "--plugin", b.o.plugin)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("child process: %w", err)
	}
	m := regexp.MustCompile(`peak (\d+) kB`).FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("child process printed %q", out)
	}
	kb, err := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024, err
}

// runChild does section c's work once and prints this process's peak.
func (b *bench) runChild() error {
	err := b.withModel(b.o.child, func(m *decoder.Model) error {
		s := newStudy(b.ctx, m, b.ckpt, b.prompts[:min(b.o.n, len(b.prompts))])
		if err := s.detect(); err != nil {
			return err
		}
		if err := s.chooseSets(nil, b.o.sets, 0); err != nil {
			return err
		}
		return s.allRows()
	})
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		return fmt.Errorf("/proc/self/status has no VmHWM")
	}
	fmt.Printf("peak %s kB\n", m[1])
	return nil
}
