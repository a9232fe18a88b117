package harness

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
)

// Environment is where a run took place. It decides no number that the plan does not.
type Environment struct {
	Go       string            `json:"go"`
	Platform string            `json:"platform"` // GOOS/GOARCH
	CPUs     int               `json:"cpus"`
	Packages map[string]string `json:"packages"` // GoMLX and its backends
	Hardware Hardware          `json:"hardware"`
}

// Hardware is the device.
type Hardware struct {
	Device string `json:"device"`
	About  string `json:"about"`
	SIMD   bool   `json:"simd"` // the pure-Go backend's kernels are vectorised
}

// CurrentTool describes this build.
func CurrentTool() Tool {
	t := Tool{Name: "headscope", Version: Version, GitCommit: Commit}
	if Dirty == "true" || Dirty == "false" {
		dirty := Dirty == "true"
		t.GitDirty = &dirty
	}
	return t
}

// CurrentEnvironment describes this process and the backend it uses; be may be nil.
func CurrentEnvironment(be *decoder.Backend) Environment {
	e := Environment{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Packages: Packages()}
	if be != nil {
		e.Hardware = Hardware{Device: be.Device, About: be.About, SIMD: be.SIMD}
	}
	return e
}

// Packages lists the versions of the linked modules that compute numbers; empty where the build carries no module information.
func Packages() map[string]string {
	out := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, d := range info.Deps {
		if strings.HasPrefix(d.Path, "github.com/gomlx/") || strings.HasPrefix(d.Path, "gonum.org/") {
			out[d.Path] = d.Version
		}
	}
	return out
}
