package harness

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
)

// State of a finding.
type State string

// Good is as it should be, Info is neither good nor bad, Bad keeps something from working.
const (
	Good State = "ok"
	Info State = "info"
	Bad  State = "bad"
)

// Finding is one thing that Diagnose looked at.
type Finding struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Diagnose looks at the build, the backends, the caches and the memory. It opens each plugin it finds; plugin names one to look at in
// place of the search, and then not being able to open it is bad.
func Diagnose(plugin string, getenv func(string) string) []Finding {
	out := []Finding{{"build", Info, fmt.Sprintf("headscope %s, %s %s/%s, commit %s", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, Commit), ""}}
	out = append(out, diagnoseGo())
	for _, kind := range []decoder.Kind{decoder.KindCPU, decoder.KindCUDA} {
		out = append(out, diagnosePlugin(kind, plugin))
	}
	if plugin != "" {
		out = out[:len(out)-1] // one plugin, looked at once
	}
	out = append(out, diagnoseFolder("headscope cache", decoder.CacheDir()), diagnoseFolder("hugging face cache", hubCache(getenv)))
	return append(out, diagnoseMemory())
}

func diagnoseGo() Finding {
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: "go"})
	if err != nil {
		return Finding{"device go", Bad, err.Error(), "the pure-Go backend should open everywhere: please report this"}
	}
	defer be.Finalize()
	f := Finding{"device go", Good, be.About, ""}
	if !be.SIMD {
		f.State, f.Hint = Info, "build with GOEXPERIMENT=simd (make build does): without it this backend is many times slower"
	}
	return f
}

func diagnosePlugin(kind decoder.Kind, plugin string) Finding {
	name := "device " + string(kind)
	o := decoder.BackendOptions{Device: string(kind), Plugin: plugin}
	if plugin != "" {
		name, o.Device = "plugin", "auto"
	} else if _, err := decoder.FindPlugin(kind, ""); err != nil {
		return Finding{name, Info, err.Error(), hintOf(err)}
	}
	be, err := decoder.OpenBackend(o)
	if err != nil && plugin == "" && builtWithoutXLA() {
		return Finding{name, Info, "this binary was built without XLA (tag noxla, or cgo off)", hintOf(err)}
	}
	if err != nil {
		return Finding{name, Bad, err.Error(), hintOf(err)}
	}
	defer be.Finalize()
	return Finding{name, Good, be.About + ", " + be.Plugin, ""}
}

// builtWithoutXLA is false where the build does not say.
func builtWithoutXLA() bool {
	packages := Packages()
	return len(packages) > 0 && packages["github.com/gomlx/go-xla"] == ""
}

func hintOf(err error) string {
	if h, ok := err.(interface{ Hint() string }); ok {
		return h.Hint()
	}
	return ""
}

func hubCache(getenv func(string) string) string {
	if d := getenv("HF_HUB_CACHE"); d != "" {
		return d
	}
	if d := getenv("HF_HOME"); d != "" {
		return filepath.Join(d, "hub")
	}
	base := getenv("XDG_CACHE_HOME")
	if base == "" {
		base = filepath.Join(getenv("HOME"), ".cache")
	}
	return filepath.Join(base, "huggingface", "hub")
}

func diagnoseFolder(name, dir string) Finding {
	if dir == "" {
		return Finding{name, Info, "no home folder", "set XDG_CACHE_HOME"}
	}
	if _, err := os.Stat(dir); err != nil {
		return Finding{name, Info, dir + " (not there)", ""}
	}
	return Finding{name, Good, dir, ""}
}

func diagnoseMemory() Finding {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return Finding{"memory", Info, "not known on this system", ""}
	}
	defer f.Close()
	var total, free string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		n, err := ParseBytes(strings.ReplaceAll(value, "kB", "KiB")) // the kernel's kB are 1024 bytes
		if err != nil {
			continue
		}
		switch key {
		case "MemTotal":
			total = FormatBytes(n)
		case "MemAvailable":
			free = FormatBytes(n)
		}
	}
	return Finding{"memory", Info, fmt.Sprintf("%s, %s free, %d CPUs", total, free, runtime.NumCPU()), ""}
}
