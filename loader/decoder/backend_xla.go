//go:build cgo && !noxla

package decoder

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"
)

const haveXLA = true

// openXLA opens the plugin at an absolute path. GoMLX decides from substrings of that path whether it is a GPU plugin, so a
// CPU plugin under a folder named "cuda" or the like is opened through a link with a clean name.
func openXLA(kind Kind, path string, num int, tf32 bool) (*Backend, error) {
	xla.EnableAutoInstall(false) // nothing downloads unasked
	if err := checkELF(path); err != nil {
		return nil, &PluginError{Path: path, Err: err, Advice: "run `make fetch`, or name another plugin with --plugin"}
	}
	open := path
	if kind == KindCPU && misleading(path) {
		link, cleanup, err := cleanLink(path)
		if err != nil {
			return nil, &PluginError{Path: path, Err: err, Advice: "move the plugin to a folder without cuda, nvidia, rocm or amd in its path"}
		}
		defer cleanup()
		open = link
	}
	config := "xla:" + open
	if kind == KindCUDA {
		config += fmt.Sprintf(",tf32=%t,preallocate=false,visible_devices=%d", tf32, num)
	} else if !strings.Contains(strings.ToLower(open), "cpu") {
		config += ",shared_buffers"
	}
	be, err := newXLA(config)
	if err != nil {
		return nil, &PluginError{Path: path, Err: firstLine(err), Advice: "check the plugin with `headscope doctor`, or use --device go"}
	}
	b := &Backend{Backend: be, Kind: kind, Plugin: path, Device: string(kind), SIMD: builtWithSIMD}
	if kind == KindCUDA {
		b.Device = fmt.Sprintf("cuda:%d", num)
	}
	b.About = fmt.Sprintf("xla:%s (%s%s)", kind, filepath.Base(path), pluginVersion(open))
	if kind == KindCUDA && tf32 {
		b.About += ", TF32 products"
	}
	return b, nil
}

func newXLA(config string) (be compute.Backend, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return compute.NewWithConfig(config)
}

func pluginVersion(path string) string {
	p, err := pjrt.GetPlugin(path)
	if err != nil {
		return ""
	}
	major, minor := p.Version()
	return fmt.Sprintf(", PJRT API %d.%d", major, minor)
}

// checkELF catches what dlopen would answer with an obscure message or a crash: not a shared object, or one cut short.
func checkELF(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return plainCause(err)
	}
	f, err := elf.Open(path)
	if err != nil || f.Type != elf.ET_DYN {
		return errors.New("not a shared library, or one that is cut short")
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && (p.Off > uint64(st.Size()) || p.Filesz > uint64(st.Size())-p.Off) {
			return fmt.Errorf("cut short: %d bytes, a segment ends at %d", st.Size(), p.Off+p.Filesz)
		}
	}
	return nil
}

func misleading(path string) bool {
	l := strings.ToLower(path)
	for _, w := range []string{"cuda", "nvidia", "rocm", "amd"} {
		if strings.Contains(l, w) {
			return true
		}
	}
	return false
}

func cleanLink(path string) (string, func(), error) {
	dir, err := os.MkdirTemp("", "headscope-pjrt-")
	if err != nil {
		return "", nil, err
	}
	link := filepath.Join(dir, "pjrt_c_api_cpu_plugin.so")
	if err := os.Symlink(path, link); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	if misleading(link) {
		os.RemoveAll(dir)
		return "", nil, fmt.Errorf("the folder for temporary files (%s) has a misleading name too", dir)
	}
	return link, func() { os.RemoveAll(dir) }, nil
}

func firstLine(err error) error {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(s)
}
