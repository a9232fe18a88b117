package decoder

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"
)

// Kind is the sort of backend that runs the graphs.
type Kind string

// Backend kinds.
const (
	KindGo   Kind = "go"
	KindCPU  Kind = "cpu"
	KindCUDA Kind = "cuda"
)

// Backend is an open GoMLX backend and what a result has to say of it.
type Backend struct {
	compute.Backend
	Kind   Kind
	Plugin string // path of the PJRT plugin; empty on the Go backend
	About  string // one line: device, plugin and its version
	Device string // the device that was asked for, "cuda:1"
	SIMD   bool   // the Go backend's kernels are vectorised
}

// BackendOptions chooses a backend.
type BackendOptions struct {
	Device string // auto, cpu, cuda, cuda:N, go
	Plugin string // path of a PJRT plugin, used for cpu or cuda instead of the search
	TF32   bool   // allow TF32 in float32 products on CUDA
}

// goConfig: the bare "go" executor deadlocks when many products are ready at once; dependency order raises peak memory.
const goConfig = "go:ops_sequential,creation_order"

// OpenBackend opens the backend that o asks for. auto takes a CUDA plugin if there is one, else a CPU plugin, else Go.
func OpenBackend(o BackendOptions) (*Backend, error) {
	device := o.Device
	if device == "" {
		device = "auto"
	}
	if device == "auto" {
		return openAuto(o)
	}
	kind, num, err := parseDevice(device)
	if err != nil {
		return nil, err
	}
	if kind == KindGo {
		return openGo()
	}
	path, err := FindPlugin(kind, o.Plugin)
	if err != nil {
		return nil, err
	}
	return openXLA(kind, path, num, o.TF32)
}

func openAuto(o BackendOptions) (*Backend, error) {
	if !haveXLA {
		return openGo()
	}
	if o.Plugin != "" {
		path, err := FindPlugin(kindOfPlugin(o.Plugin), o.Plugin)
		if err != nil {
			return nil, err
		}
		return openXLA(kindOfPlugin(o.Plugin), path, 0, o.TF32)
	}
	for _, kind := range []Kind{KindCUDA, KindCPU} {
		path, err := FindPlugin(kind, "")
		if err != nil {
			continue
		}
		if kind == KindCUDA && !hasNVIDIA() {
			continue
		}
		return openXLA(kind, path, 0, o.TF32)
	}
	return openGo()
}

func hasNVIDIA() bool {
	_, err := os.Stat("/dev/nvidiactl")
	return err == nil
}

func parseDevice(s string) (Kind, int, error) {
	name, num, hasNum := strings.Cut(s, ":")
	n := 0
	if hasNum {
		v, err := strconv.Atoi(num)
		if err != nil || v < 0 || name != "cuda" {
			return "", 0, fmt.Errorf("device %q: want auto, cpu, cuda, cuda:N or go", s)
		}
		n = v
	}
	switch Kind(name) {
	case KindGo, KindCPU, KindCUDA:
		return Kind(name), n, nil
	}
	return "", 0, fmt.Errorf("device %q: want auto, cpu, cuda, cuda:N or go", s)
}

func openGo() (*Backend, error) {
	be, err := compute.NewWithConfig(goConfig)
	if err != nil {
		return nil, fmt.Errorf("go backend: %w", err)
	}
	about := "go (" + goConfig + ")"
	if !builtWithSIMD {
		about += ", without simd"
	}
	return &Backend{Backend: be, Kind: KindGo, About: about, Device: "go", SIMD: builtWithSIMD}, nil
}

// CacheDir is the folder that holds plugins and fetched models: $XDG_CACHE_HOME/headscope or ~/.cache/headscope.
func CacheDir() string {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "headscope")
}

// FindPlugin returns the path of the PJRT plugin for kind: explicit if given, else searched in PJRT_PLUGIN_LIBRARY_PATH
// (a list of files and folders), else in CacheDir()/pjrt/<kind>.
func FindPlugin(kind Kind, explicit string) (string, error) {
	if explicit != "" {
		st, err := os.Stat(explicit)
		if err != nil {
			return "", &PluginError{Path: explicit, Err: plainCause(err), Advice: "--plugin takes the path of a pjrt_c_api_*_plugin.so"}
		}
		if !st.IsDir() {
			return filepath.Abs(explicit)
		}
		return pluginIn(kind, []string{explicit})
	}
	places := filepath.SplitList(os.Getenv("PJRT_PLUGIN_LIBRARY_PATH"))
	if dir := CacheDir(); dir != "" {
		places = append(places, filepath.Join(dir, "pjrt", string(kind)))
	}
	return pluginIn(kind, places)
}

func pluginIn(kind Kind, places []string) (string, error) {
	for _, p := range places {
		if p == "" {
			continue
		}
		st, err := os.Stat(p)
		if err != nil {
			continue
		}
		if !st.IsDir() {
			if kindOfPlugin(p) == kind {
				return filepath.Abs(p)
			}
			continue
		}
		for _, pattern := range []string{"pjrt_c_api_" + string(kind) + "*plugin.so", "pjrt?plugin?" + string(kind) + "*.so", "xla_" + string(kind) + "*plugin.so"} {
			if m, _ := filepath.Glob(filepath.Join(p, pattern)); len(m) > 0 {
				return filepath.Abs(m[0])
			}
		}
	}
	get := "run `make fetch`"
	if kind == KindCUDA {
		get = "put the CUDA plugin of a JAX release there as pjrt_c_api_cuda_plugin.so"
	}
	return "", &PluginError{
		Err:    fmt.Errorf("no %s plugin found in %s", kind, strings.Join(places, ", ")),
		Advice: get + ", give --plugin FILE, set PJRT_PLUGIN_LIBRARY_PATH, or use --device go",
	}
}

func kindOfPlugin(path string) Kind {
	base := strings.ToLower(filepath.Base(path))
	if strings.Contains(base, "cuda") || strings.Contains(base, "nvidia") {
		return KindCUDA
	}
	return KindCPU
}

func plainCause(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}
