package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

// deviceFlags choose where graphs run.
type deviceFlags struct {
	device, plugin, memory string
	tf32                   bool
}

func (d *deviceFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&d.device, "device", "auto", "auto, cpu, cuda, cuda:N or go; auto takes a CUDA plugin, else a CPU plugin, else the pure-Go backend")
	fs.StringVar(&d.plugin, "plugin", "", "PJRT plugin to open, a FILE")
	fs.StringVar(&d.memory, "memory", "", "bytes that the weights may take on the device, such as 6GB; below the need, layers are streamed")
	fs.BoolVar(&d.tf32, "tf32", false, "allow TF32 in float32 products on CUDA")
}

var deviceForm = regexp.MustCompile(`^(auto|cpu|go|cuda(:[0-9]{1,4})?)$`)

func (d *deviceFlags) open(a *app) (*decoder.Backend, error) {
	if !deviceForm.MatchString(d.device) {
		return nil, &usageError{fmt.Errorf("--device %q", d.device), "want auto, cpu, cuda, cuda:N or go"}
	}
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: d.device, Plugin: d.plugin, TF32: d.tf32})
	if err != nil {
		return nil, err
	}
	if d.device == "auto" {
		a.note("device: %s", be.About)
	}
	if be.Kind == decoder.KindGo && !be.SIMD {
		a.note("warning: built without simd, the pure-Go backend is many times slower (GOEXPERIMENT=simd, as `make build` does)")
	}
	return be, nil
}

func (d *deviceFlags) bytes() (int64, error) {
	if d.memory == "" {
		return 0, nil
	}
	n, err := harness.ParseBytes(d.memory)
	if err != nil {
		return 0, &usageError{fmt.Errorf("--memory: %w", err), "want bytes, such as 6GB or 512MiB"}
	}
	return n, nil
}

// modelFlags choose how a checkpoint is run.
type modelFlags struct {
	deviceFlags
	dtype   string
	invFreq string
}

func (m *modelFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&m.dtype, "dtype", "auto", "auto (the checkpoint's), float32 or bfloat16")
	fs.StringVar(&m.invFreq, "inv-freq-from", "", "a table FILE.json whose frequencies take the place of the checkpoint's; `inspect --table NAME --out FILE.json` writes one")
	m.deviceFlags.add(fs)
}

// opened is a checkpoint on a device.
type opened struct {
	checkpoint *loader.Checkpoint
	model      *decoder.Model
}

func (o *opened) close(err error) error {
	return errors.Join(err, o.model.Close(), o.checkpoint.Close())
}

// check refuses what no checkpoint can make right, before one is opened.
func (m *modelFlags) check() error {
	switch m.dtype {
	case "auto", "float32", "bfloat16", "float16":
	default:
		return &usageError{fmt.Errorf("--dtype %q", m.dtype), "want auto, float32 or bfloat16"}
	}
	if !deviceForm.MatchString(m.device) {
		return &usageError{fmt.Errorf("--device %q", m.device), "want auto, cpu, cuda, cuda:N or go"}
	}
	if m.device == "go" && m.plugin != "" {
		return &usageError{fmt.Errorf("--plugin with --device go"), "the pure-Go backend takes no plugin: leave one of them out"}
	}
	_, err := m.bytes()
	return err
}

// open opens the checkpoint before the device: its errors come sooner and cost nothing.
func (m *modelFlags) open(a *app, ref string) (*opened, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	c, err := m.checkpoint(ref)
	if err != nil {
		return nil, err
	}
	model, err := m.model(a, c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &opened{c, model}, nil
}

// checkpoint opens the checkpoint, with another rotary table if one is given.
func (m *modelFlags) checkpoint(ref string) (*loader.Checkpoint, error) {
	var table *rope.File
	if m.invFreq != "" {
		var err error
		if table, err = rope.ReadFile(m.invFreq); err != nil {
			return nil, advise(fmt.Errorf("--inv-freq-from: %w", err), tableFileForm)
		}
	}
	c, err := loader.Open(ref)
	if err != nil || table == nil {
		return c, err
	}
	if err := c.UseTable(table); err != nil {
		return nil, errors.Join(&usageError{fmt.Errorf("--inv-freq-from: %s: %w", m.invFreq, err), "`headscope inspect MODEL` prints the planes of its tables"}, c.Close())
	}
	return c, nil
}

func (m *modelFlags) model(a *app, c *loader.Checkpoint) (*decoder.Model, error) {
	memory, err := m.bytes()
	if err != nil {
		return nil, err
	}
	be, err := m.deviceFlags.open(a)
	if err != nil {
		return nil, err
	}
	model, err := decoder.New(be, c, decoder.Options{DType: m.dtype, Memory: memory})
	if err != nil {
		return nil, err
	}
	if model.Streamed() {
		a.note("note: the weights do not fit --memory, layers are uploaded anew for every pass")
	}
	return model, nil
}

// operandsOf checks the number of operands.
func operandsOf(v string, got []string, names ...string) error {
	if len(got) == len(names) {
		return nil
	}
	if len(got) < len(names) {
		return &usageError{fmt.Errorf("%s is missing", names[len(got)]), fmt.Sprintf("`headscope help %s` shows how it is used", v)}
	}
	return &usageError{fmt.Errorf("unexpected operand %q", got[len(names)]), fmt.Sprintf("`headscope help %s` shows how it is used; quote a text with spaces", v)}
}
