package decoder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseDevice(t *testing.T) {
	for s, want := range map[string]struct {
		kind Kind
		num  int
	}{"go": {KindGo, 0}, "cpu": {KindCPU, 0}, "cuda": {KindCUDA, 0}, "cuda:0": {KindCUDA, 0}, "cuda:3": {KindCUDA, 3}} {
		kind, num, err := parseDevice(s)
		if err != nil || kind != want.kind || num != want.num {
			t.Errorf("%s: got %s, %d, %v", s, kind, num, err)
		}
	}
	for _, s := range []string{"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:x", "cpu:0", "go:1", "cuda:1:2", "auto:0"} {
		if kind, num, err := parseDevice(s); err == nil || !strings.Contains(err.Error(), "want auto, cpu, cuda, cuda:N or go") {
			t.Errorf("%q: got %s, %d, %v", s, kind, num, err)
		}
	}
	if _, err := OpenBackend(BackendOptions{Device: "tpu"}); err == nil {
		t.Error("device tpu was opened")
	}
}

func touch(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("no plugin"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFindPlugin: the flag wins over the variable, the variable over the cache folder; files and folders do in both.
func TestFindPlugin(t *testing.T) {
	root := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	t.Setenv("PJRT_PLUGIN_LIBRARY_PATH", "")
	find := func(kind Kind, explicit, want string) {
		t.Helper()
		if got, err := FindPlugin(kind, explicit); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", kind, got, err, want)
		}
	}
	var missing *PluginError
	if _, err := FindPlugin(KindCPU, ""); !errors.As(err, &missing) || missing.Hint() == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("no plugin: got %v", err)
	}
	cached := touch(t, root, "cache", "headscope", "pjrt", "cpu", "pjrt_c_api_cpu_plugin.so")
	find(KindCPU, "", cached)
	if _, err := FindPlugin(KindCUDA, ""); !errors.As(err, &missing) {
		t.Errorf("no CUDA plugin: got %v", err)
	}
	cuda := touch(t, root, "nvidia", "xla_cuda_plugin.so")
	listed := touch(t, root, "listed", "pjrt-plugin-cpu_v2.so")
	t.Setenv("PJRT_PLUGIN_LIBRARY_PATH", strings.Join([]string{filepath.Join(root, "absent"), cuda, filepath.Dir(listed)}, string(os.PathListSeparator)))
	find(KindCPU, "", listed)
	find(KindCUDA, "", cuda)
	explicit := touch(t, root, "mine", "anything.so")
	find(KindCPU, explicit, explicit)
	find(KindCPU, filepath.Dir(cached), cached)
	for _, bad := range []string{filepath.Join(root, "absent.so"), filepath.Join(root, "mine")} {
		if _, err := FindPlugin(KindCPU, bad); !errors.As(err, &missing) || missing.Hint() == "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// TestBadPlugins: files that are no plugin give one line and a hint, not a crash.
func TestBadPlugins(t *testing.T) {
	if !haveXLA {
		var none *PluginError
		if _, err := OpenBackend(BackendOptions{Device: "cpu", Plugin: touch(t, t.TempDir(), "x.so")}); !errors.As(err, &none) || !strings.Contains(err.Error(), "noxla") {
			t.Errorf("got %v, want an error that names the tag", err)
		}
		return
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, path := range map[string]string{
		"text":       write("text.so", "no plugin"),
		"empty":      write("empty.so", ""),
		"only magic": write("magic.so", "\x7fELF"),
		"cut short":  write("short.so", "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 100)),
		"absent":     filepath.Join(dir, "absent.so"),
	} {
		be, err := OpenBackend(BackendOptions{Device: "cpu", Plugin: path})
		var bad *PluginError
		if be != nil || !errors.As(err, &bad) || bad.Hint() == "" || bad.Path != path || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want a *PluginError of one line with a hint", name, err)
		}
	}
}

// TestMisleadingPath: a CPU plugin in a folder with a GPU's name is a CPU plugin.
func TestMisleadingPath(t *testing.T) {
	plain := backend(t, "cpu")
	for _, folder := range []string{"cuda-test", "NVIDIA", "rocm", "camden"} {
		path := filepath.Join(t.TempDir(), folder, "pjrt_c_api_cpu_plugin.so")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(plain.Plugin, path); err != nil {
			t.Fatal(err)
		}
		be, err := OpenBackend(BackendOptions{Device: "cpu", Plugin: path})
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		if be.Kind != KindCPU || be.Plugin != path || be.HasSharedBuffers() != plain.HasSharedBuffers() || be.NumDevices() != plain.NumDevices() {
			t.Errorf("%s: got %s (%s), shared buffers %t, %d devices", folder, be.Kind, be.About, be.HasSharedBuffers(), be.NumDevices())
		}
		x, err := be.ints([]int32{4, 5, 6}, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := intsOf(x); err != nil || got[2] != 6 {
			t.Errorf("%s: got %v, %v", folder, got, err)
		}
		free(x)
		be.Finalize()
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "headscope-pjrt-*")); err != nil || len(left) > 0 {
		t.Errorf("links left behind: %v, %v", left, err)
	}
}

func TestBackendSays(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		if be.SIMD != builtWithSIMD || be.Device != string(be.Kind) || strings.Contains(be.About, "\n") {
			t.Errorf("got %+v", be)
		}
		if want := map[Kind]string{KindGo: goConfig, KindCPU: "PJRT API"}[be.Kind]; !strings.Contains(be.About, want) {
			t.Errorf("got %q, want %q in it", be.About, want)
		}
	})
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PJRT_PLUGIN_LIBRARY_PATH", "")
	be, err := OpenBackend(BackendOptions{})
	if err != nil || be.Kind != KindGo {
		t.Errorf("auto without a plugin: got %v, %v", be, err)
	}
}
