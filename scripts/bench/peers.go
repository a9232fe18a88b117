package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Environment variables that name the Python peer.
const (
	peerPython = "HEADSCOPE_PEER_PYTHON" // a python with torch and transformers
	peerDir    = "HEADSCOPE_PEER_DIR"    // folder of hf_profile.py and calib.py
)

// peer runs the published retrieval-head profile in transformers.
type peer struct{ python, dir string }

// findPeer returns nil where no peer is named.
func findPeer() (*peer, error) {
	p := &peer{os.Getenv(peerPython), os.Getenv(peerDir)}
	if p.python == "" || p.dir == "" {
		return nil, nil
	}
	for _, f := range []string{"hf_profile.py", "calib.py"} {
		if _, err := os.Stat(filepath.Join(p.dir, f)); err != nil {
			return nil, fmt.Errorf("%s: %w", peerDir, err)
		}
	}
	return p, nil
}

const noPeer = "set " + peerPython + " (a python with torch and transformers) and " + peerDir + " (folder of hf_profile.py, calib.py)"

// peerRun is what one run of the profile printed.
type peerRun struct {
	argmax, copied, knockout float64 // seconds
	samples                  int     // of knockout
	base, without            float64 // recall
	random                   []float64
	heads                    heads.Set
	generated                float64 // tokens of an answer, mean
	peakMB                   float64
}

// total leaves out the perplexity phase and loading.
func (r *peerRun) total() float64 { return r.argmax + r.copied + r.knockout }

// profileArgs are the arguments of hf_profile.py that are used here.
type profileArgs struct {
	model, prompts, dtype string
	n, sets               int
}

// profile runs hf_profile.py.
func (p *peer) profile(ctx context.Context, q profileArgs) (*peerRun, error) {
	out, err := p.script(ctx, "hf_profile.py", "--model", q.model, "--prompts", q.prompts, "--dtype", q.dtype, "--windows", "0",
		"--n", strconv.Itoa(q.n), "--sets", strconv.Itoa(q.sets), "--threads", strconv.Itoa(runtime.NumCPU()))
	if err != nil {
		return nil, err
	}
	return parseProfile(out)
}

// calibrate runs calib.py. On processors without bfloat16 products its second half takes minutes, so it gets half a minute.
func (p *peer) calibrate(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := p.script(ctx, "calib.py")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(strings.TrimPrefix(out, "calibration: "))
}

func (p *peer) script(ctx context.Context, name string, args ...string) (string, error) {
	return p.run(ctx, append([]string{filepath.Join(p.dir, name)}, args...)...)
}

func (p *peer) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.python, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, lines[len(lines)-1])
	}
	return string(out), nil
}

// draw returns the random sets that the profile takes from rest, with its own generator.
func (p *peer) draw(ctx context.Context, rest heads.Set, size, sets int) ([]heads.Set, error) {
	list, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	code := "import json, random; r = json.loads('''" + string(list) + "'''); " +
		fmt.Sprintf("print(json.dumps([random.Random(s).sample(r, %d) for s in range(%d)]))", size, sets)
	out, err := p.run(ctx, "-c", code)
	if err != nil {
		return nil, err
	}
	var drawn [][]decoder.Head
	if err := json.Unmarshal([]byte(out), &drawn); err != nil {
		return nil, fmt.Errorf("random sets: %w", err)
	}
	result := make([]heads.Set, len(drawn))
	for i, d := range drawn {
		result[i] = heads.NewSet(d...)
	}
	return result, nil
}

// parseProfile reads what hf_profile.py prints.
func parseProfile(out string) (*peerRun, error) {
	r := &peerRun{}
	field := func(pattern string) ([]string, error) {
		m := regexp.MustCompile(pattern).FindStringSubmatch(out)
		if m == nil {
			return nil, fmt.Errorf("hf_profile.py printed no %q", pattern)
		}
		return m[1:], nil
	}
	for name, to := range map[string]*float64{"argmax": &r.argmax, "copy": &r.copied, "knockout": &r.knockout} {
		// Seconds a sample have three decimals, those of the phase one.
		m, err := field(`(?m)^` + name + ` +[\d.]+ s, (\d+) samples, ([\d.]+) s per sample`)
		if err != nil {
			return nil, err
		}
		n, perSample := parse(m[0]), parse(m[1])
		*to = n * perSample
		if name == "knockout" {
			r.samples = int(n)
		}
	}
	m, err := field(`recall base ([\d.]+) knockout ([\d.]+) random \[([^\]]*)\] tokens generated \(mean\) ([\d.]+)`)
	if err != nil {
		return nil, err
	}
	r.base, r.without, r.generated = parse(m[0]), parse(m[1]), parse(m[3])
	for _, s := range strings.Split(m[2], ",") {
		r.random = append(r.random, parse(strings.TrimSpace(s)))
	}
	if m, err = field(`retrieval heads \d+ (\[.*\]) copy`); err != nil {
		return nil, err
	}
	if r.heads, err = heads.Parse(strings.NewReplacer("(", "[", ")", "]").Replace(m[0])); err != nil {
		return nil, err
	}
	if m, err = field(`peak RSS MB (\d+)`); err != nil {
		return nil, err
	}
	r.peakMB = parse(m[0])
	return r, nil
}

// parse reads digits that a pattern has matched.
func parse(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// writePeerPrompts writes prompts in the layout that hf_profile.py reads and returns the file's path.
func writePeerPrompts(dir string, prompts []*harness.Prompt) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, p := range prompts {
		if err := enc.Encode(map[string]any{
			"token_ids": p.IDs, "n_tokens": len(p.IDs), "needle_tokens": p.Needle, "code_tokens": p.Code,
			"code_ids": p.Answer, "code": p.Spec.Answer,
		}); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "prompts.jsonl")
	return path, os.WriteFile(path, buf.Bytes(), 0o666)
}
