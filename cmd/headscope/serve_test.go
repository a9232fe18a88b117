package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// session is a serve process in this one.
type session struct {
	t      *testing.T
	in     io.WriteCloser
	out    *bufio.Scanner
	cancel context.CancelFunc // as Ctrl-C
	exit   chan int
}

// tinyFolder writes the test model and prompts.
func tinyFolder(t *testing.T) (model, prompts string) {
	t.Helper()
	dir := t.TempDir()
	model, prompts = filepath.Join(dir, "tiny"), filepath.Join(dir, "prompts.jsonl")
	if err := writeTiny(model); err != nil {
		t.Fatal(err)
	}
	if err := writePrompts(prompts, 3); err != nil {
		t.Fatal(err)
	}
	return model, prompts
}

// serve starts a session and reads its first line.
func serve(t *testing.T, model string) *session {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{t: t, in: inW, out: bufio.NewScanner(outR), cancel: cancel, exit: make(chan int, 1)}
	s.out.Buffer(nil, 16<<20)
	go func() {
		a := &app{in: inR, out: outW, err: io.Discard, getenv: os.Getenv}
		code := a.run(ctx, []string{"serve", model, "--device", "go"})
		outW.Close()
		s.exit <- code
	}()
	t.Cleanup(func() { cancel(); inW.Close(); outR.Close() })
	var ready struct {
		Ready    bool
		Model    string
		Protocol int
	}
	s.read(&ready)
	if !ready.Ready || ready.Model != model || ready.Protocol != 1 {
		t.Fatalf("first line %+v", ready)
	}
	return s
}

// send writes requests, each on a line.
func (s *session) send(lines ...string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, strings.Join(lines, "\n")+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) read(to any) {
	s.t.Helper()
	if !s.out.Scan() {
		s.t.Fatalf("no reply: %v", s.out.Err())
	}
	if err := json.Unmarshal(s.out.Bytes(), to); err != nil {
		s.t.Fatalf("%s: %v", s.out.Bytes(), err)
	}
}

// answer is a reply read back.
type answer struct {
	ID     json.RawMessage
	OK     bool
	Result json.RawMessage
	Error  *replyError
}

func (s *session) ask(line string) answer {
	s.t.Helper()
	s.send(line)
	var a answer
	s.read(&a)
	return a
}

// ends waits for the exit code.
func (s *session) ends(want int) {
	s.t.Helper()
	select {
	case got := <-s.exit:
		if got != want {
			s.t.Errorf("exit code %d, want %d", got, want)
		}
	case <-time.After(time.Minute):
		s.t.Fatal("the process goes on")
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestServeEqualsCommand: a reply's result is, to the last digit, what the command prints.
func TestServeEqualsCommand(t *testing.T) {
	model, prompts := tinyFolder(t)
	s := serve(t, model)
	for i, test := range []struct {
		request string
		args    []string
	}{
		{`"op": "tokenize", "text": "The code <is>"`, []string{"tokenize", "The code <is>"}},
		{`"op": "logits", "text": "The code is"`, []string{"logits", "The code is"}},
		{`"op": "logits", "text": "The code is", "top_k": 3, "edits": ["zero:L0H1,L1H2"]`, []string{"logits", "The code is", "--top-k", "3", "--edit", "zero:L0H1,L1H2"}},
		{`"op": "logits", "text": "The code is", "edits": [{"op": "scale", "value": 0.5, "heads": [[1, 2]]}, "uniform:L2H0@last"]`,
			[]string{"logits", "The code is", "--edit", "scale=0.5:L1H2", "--edit", "uniform:L2H0@last"}},
		{`"op": "generate", "text": "The code is", "max_new": 5`, []string{"generate", "The code is", "--max-new", "5"}},
		{`"op": "generate", "text": "The code is", "max_new": 5, "edits": ["zero:L0H0,L0H1,L0H2,L0H3"]`,
			[]string{"generate", "The code is", "--max-new", "5", "--edit", "zero:L0H0,L0H1,L0H2,L0H3"}},
		{`"op": "attention", "text": "The code is", "heads": ["L1H2", [0, 3]], "rows": [0, -1]`, []string{"show", "The code is", "--head", "L1H2,L0H3", "--rows", "0,-1"}},
		{`"op": "attention", "ids": [5, 6, 7], "heads": ["L1H2"]`, []string{"show", "--ids", "5,6,7", "--head", "L1H2"}},
		{fmt.Sprintf(`"op": "attention", "prompts": %q, "prompt": "p1", "heads": ["L2H0"], "rows": "needle,-1", "top_k": 2, "with_answer": true, "edits": ["zero:L0H1@question"]`, prompts),
			[]string{"show", "--prompts", prompts, "--id", "p1", "--head", "L2H0", "--rows", "needle,-1", "--top-k", "2", "--with-answer", "--edit", "zero:L0H1@question"}},
	} {
		a := s.ask(fmt.Sprintf(`{"id": %d, %s}`, i, test.request))
		if !a.OK || string(a.ID) != fmt.Sprint(i) {
			t.Errorf("%s: got %s", test.request, jsonOf(t, a))
			continue
		}
		args := append([]string{test.args[0], model}, test.args[1:]...)
		if test.args[0] != "tokenize" {
			args = append(args, "--device", "go")
		}
		want, _ := command(t, exitDone, append(args, "--json")...)
		if got := compact(t, string(a.Result)); got != compact(t, want) {
			t.Errorf("%s:\ngot  %.300s\nwant %.300s", test.request, got, compact(t, want))
		}
	}
	s.in.Close()
	s.ends(exitDone)
}

// TestServeErrors: message, hint and code are the command's; the session goes on.
func TestServeErrors(t *testing.T) {
	model, _ := tinyFolder(t)
	s := serve(t, model)
	for request, args := range map[string][]string{
		`"op": "logits", "text": "a", "edits": ["zero:L3H0"]`:              {"logits", model, "a", "--edit", "zero:L3H0"},
		`"op": "logits", "text": "a", "edits": ["freeze:L0H1:slow18"]`:     {"logits", model, "a", "--edit", "freeze:L0H1:slow18"},
		`"op": "logits", "text": "a", "edits": ["zero"]`:                   {"logits", model, "a", "--edit", "zero"},
		`"op": "logits", "text": "a", "edits": ["zero:L0H1@question"]`:     {"logits", model, "a", "--edit", "zero:L0H1@question"},
		`"op": "logits", "text": ""`:                                       {"logits", model, ""},
		`"op": "generate", "text": "a", "max_new": 0`:                      {"generate", model, "a", "--max-new", "0"},
		`"op": "generate", "text": "a", "max_new": 512`:                    {"generate", model, "a", "--max-new", "512"},
		`"op": "attention", "text": "a", "heads": ["L3H0"]`:                {"show", model, "a", "--head", "L3H0"},
		`"op": "attention", "text": "a", "heads": ["L0H0"], "rows": [7]`:   {"show", model, "a", "--head", "L0H0", "--rows", "7"},
		`"op": "attention", "ids": [960], "heads": ["L0H0"]`:               {"show", model, "--ids", "960", "--head", "L0H0"},
		`"op": "attention", "prompts": "nowhere.jsonl", "heads": ["L0H0"]`: {"show", model, "--prompts", "nowhere.jsonl", "--head", "L0H0"},
	} {
		a := s.ask(`{"id": "x", ` + request + `}`)
		if a.OK || a.Error == nil || string(a.ID) != `"x"` {
			t.Errorf("%s: got %s", request, jsonOf(t, a))
			continue
		}
		_, stderr := command(t, a.Error.Code, append(args, "--device", "go")...)
		if want := fmt.Sprintf("error: %s\nhint: %s\n", a.Error.Message, a.Error.Hint); !strings.HasSuffix(stderr, want) {
			t.Errorf("%s: got %q, the command says %q", request, want, stderr)
		}
	}
	if a := s.ask(`{"id": 1, "op": "info"}`); !a.OK || !strings.Contains(string(a.Result), `"layers":3`) {
		t.Errorf("after the errors: %s", jsonOf(t, a))
	}
	s.in.Close()
	s.ends(exitDone)
}

// TestServeBadLines: what is no request is answered, and nothing ends.
func TestServeBadLines(t *testing.T) {
	model, _ := tinyFolder(t)
	s := serve(t, model)
	for _, test := range []struct{ line, id, want string }{
		{"garbage", "null", "not a request"},
		{`[1]`, "null", "not a JSON object"},
		{`{"id": 1, "op": "info"`, "null", "unexpected EOF"},
		{`{"id": 1, "op": "info"} {}`, "null", "something follows"},
		{`{"op": "info"}`, "null", `"id" is missing`},
		{`{"id": null, "op": "info"}`, "null", `"id" is missing`},
		{`{"id": [1], "op": "info"}`, "null", `"id" is missing`},
		{`{"id": {"a": 1}, "op": 5}`, "null", "not a request"},
		{`{"id": 1, "op": "lgits", "text": "a"}`, "1", `unknown op "lgits"`},
		{`{"id": 1}`, "1", `unknown op ""`},
		{`{"id": 1, "op": "logits", "text": "a", "txt": "b"}`, "1", `unknown field "txt"`},
		{`{"id": 1, "op": "info", "text": "a"}`, "1", `unknown field "text"`},
		{`{"id": 1, "op": "shutdown", "now": true}`, "1", `unknown field "now"`},
		{`{"id": 1, "op": "logits", "Text": "a"}`, "null", `unknown field "Text"`},
		{`{"id": 1, "op": "logits", "text": "a", "text": "b"}`, "null", `key "text" is there twice`},
		{`{"id": 1, "op": "logits", "text": 5}`, "1", "cannot unmarshal number"},
		{`{"id": 1, "op": "logits"}`, "1", "0 texts"},
		{`{"id": 1, "op": "logits", "text": "a", "ids": [1]}`, "1", "2 texts"},
		{`{"id": 1, "op": "logits", "ids": []}`, "1", "the text is empty"},
		{`{"id": 1, "op": "logits", "text": "a", "top_k": 0}`, "1", "top_k 0"},
		{`{"id": 1, "op": "logits", "text": "a", "question": [0]}`, "1", `"question"`},
		{`{"id": 1, "op": "logits", "text": "a b", "question": [0, 3]}`, "1", "begins with the first token"},
		{`{"id": 1, "op": "logits", "text": "a", "prompt": "p1"}`, "1", `"prompt" without "prompts"`},
		{`{"id": 1, "op": "attention", "text": "a"}`, "1", `"heads" is missing`},
		{`{"id": 1, "op": "attention", "text": "a", "heads": ["L0H0"], "rows": {}}`, "1", `"rows"`},
		{`{"id": 1, "op": "attention", "text": "a", "heads": ["L0H0"], "with_answer": true}`, "1", `"with_answer"`},
		{`{"id": 1, "op": "score", "text": "a"}`, "1", "which answer?"},
		{`{"id": 1, "op": "score", "ids": [1], "answer": "b"}`, "1", "which answer?"},
		{`{"id": 1, "op": "score", "ids": [1], "answer_ids": [-1]}`, "1", "token id -1"},
		{`{"id": 1, "op": "score", "ids": [1], "answer_ids": []}`, "1", "no answer to score"},
		{`{"id": 1, "op": "cancel"}`, "1", `"target" is missing`},
		{"{\"id\": 1, \"op\": \"tokenize\", \"text\": \"\xff\"}", "null", "not UTF-8"},
	} {
		a := s.ask(test.line)
		if a.OK || a.Error == nil || string(a.ID) != test.id || a.Error.Code != exitUsage || a.Error.Hint == "" || !strings.Contains(a.Error.Message, test.want) {
			t.Errorf("%s: got %s, want %q", test.line, jsonOf(t, a), test.want)
		}
	}
	s.send("", "  ") // empty lines are none
	if a := s.ask(`{"id": 2, "op": "tokenize", "text": "a"}`); !a.OK || string(a.ID) != "2" {
		t.Errorf("after the bad lines: %s", jsonOf(t, a))
	}
	s.in.Close()
	s.ends(exitDone)
}

// TestServeScore: an answer's log-probability is what logits says of its token, and a greedy continuation scores as greedy.
func TestServeScore(t *testing.T) {
	model, prompts := tinyFolder(t)
	s := serve(t, model)
	var next struct {
		Top []struct {
			ID      int32
			LogProb float64
		}
	}
	var cont struct{ IDs []int32 }
	type scored struct {
		LogProb float64
		Greedy  bool
		Tokens  []struct {
			ID, Argmax   int32
			LogProb, Gap float64
		}
	}
	get := func(line string, to any) {
		t.Helper()
		a := s.ask(line)
		if !a.OK {
			t.Fatalf("%s: %s", line, jsonOf(t, a))
		}
		if err := json.Unmarshal(a.Result, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, edits := range []string{``, `, "edits": ["zero:L0H0,L1H1,L1H3"]`, `, "edits": ["uniform:L1H1@answer"]`} {
		get(`{"id": 1, "op": "logits", "text": "The code is", "top_k": 4`+edits+`}`, &next)
		for _, n := range next.Top {
			var got scored
			get(fmt.Sprintf(`{"id": 1, "op": "score", "text": "The code is", "answer_ids": [%d]%s}`, n.ID, edits), &got)
			if math.Abs(got.LogProb-n.LogProb) > 1e-4 || got.Greedy != (n.ID == next.Top[0].ID) || got.Tokens[0].Argmax != next.Top[0].ID {
				t.Errorf("token %d: got %+v, logits says %v", n.ID, got, n.LogProb)
			}
		}
		get(`{"id": 1, "op": "generate", "text": "The code is", "max_new": 6`+edits+`}`, &cont)
		var got scored
		get(fmt.Sprintf(`{"id": 1, "op": "score", "text": "The code is", "answer_ids": %s%s}`, jsonOf(t, cont.IDs), edits), &got)
		sum := 0.0
		for _, tok := range got.Tokens {
			sum += tok.LogProb
		}
		if !got.Greedy || len(got.Tokens) != len(cont.IDs) || math.Abs(sum-got.LogProb) > 1e-9 {
			t.Errorf("the greedy continuation %v scores as %+v", cont.IDs, got)
		}
	}
	// The answer of a prompt, the same as text, and the same with its question given by hand.
	var a, b, c scored
	text := "The code is K1Q. The sea is far. What is the code? The code is"
	get(fmt.Sprintf(`{"id": 1, "op": "score", "prompts": %q, "prompt": "p1", "edits": ["zero:L1H1@question"]}`, prompts), &a)
	get(fmt.Sprintf(`{"id": 1, "op": "score", "text": %q, "answer": "K1Q", "question": [33, 50], "edits": ["zero:L1H1@question"]}`, text), &b)
	get(fmt.Sprintf(`{"id": 1, "op": "score", "text": %q, "answer": "K1Q", "edits": ["zero:L1H1@all"]}`, text), &c)
	if a.LogProb != b.LogProb || a.LogProb == c.LogProb {
		t.Errorf("got %v of the prompt, %v of its text, %v with the edit at all rows", a.LogProb, b.LogProb, c.LogProb)
	}
	s.in.Close()
	s.ends(exitDone)
}

const long = `"op": "generate", "text": "The code is", "max_new": 500`

// TestServeCancel: what runs is stopped, what waits is not begun, both are answered, and the next request is none the worse.
func TestServeCancel(t *testing.T) {
	model, _ := tinyFolder(t)
	s := serve(t, model)
	plain := s.ask(`{"id": 0, "op": "logits", "text": "The code is"}`)
	s.send(`{"id": 1, `+long+`}`, `{"id": "b", `+long+`}`, `{"id": 3, "op": "logits", "text": "The code is"}`, `{"id": 1, "op": "info"}`,
		`{"id": 4, "op": "cancel", "target": "b"}`, `{"id": 5, "op": "cancel", "target": 1}`, `{"id": 6, "op": "cancel", "target": 99}`)
	got := map[string]answer{}
	var order []string
	for range 7 {
		var a answer
		s.read(&a)
		key := string(a.ID)
		if a.Error != nil {
			key += " " + fmt.Sprint(a.Error.Code)
		}
		got[key] = a
		order = append(order, key)
	}
	for key, want := range map[string]string{"4": `{"state":"waiting"}`, "5": `{"state":"running"}`, "6": `{"state":"unknown"}`, "3": string(plain.Result)} {
		if a, ok := got[key]; !ok || string(a.Result) != want {
			t.Errorf("%s: got %s, want %s (order %v)", key, a.Result, want, order)
		}
	}
	for _, key := range []string{"1 130", `"b" 130`, "1 2"} { // the last one: an id that is in use
		if a, ok := got[key]; !ok || a.OK {
			t.Errorf("no answer %s, got %v", key, order)
		}
	}
	if a := got["1 130"]; a.Error == nil || a.Error.Message != "interrupted" {
		t.Errorf("got %s", jsonOf(t, a))
	}
	if last := order[len(order)-1]; last != "3" {
		t.Errorf("answered last: %s, order %v", last, order)
	}
	if a := s.ask(`{"id": 1, "op": "cancel", "target": 3}`); string(a.Result) != `{"state":"unknown"}` {
		t.Errorf("cancel of an answered request: %s", a.Result)
	}
	s.in.Close()
	s.ends(exitDone)
}

// TestServeEnd: the end of the input ends the process when all is answered; the last line needs no line feed.
func TestServeEnd(t *testing.T) {
	model, _ := tinyFolder(t)
	s := serve(t, model)
	go func() {
		for i := range 5 {
			fmt.Fprintf(s.in, `{"id": %d, "op": "logits", "text": "The code is", "top_k": 1}`+"\n", i)
		}
		io.WriteString(s.in, `{"id": 5, "op": "info"}`)
		s.in.Close()
	}()
	for i := range 6 {
		var a answer
		if s.read(&a); !a.OK || string(a.ID) != fmt.Sprint(i) {
			t.Errorf("reply %d: %s", i, jsonOf(t, a))
		}
	}
	s.ends(exitDone)
	if s.out.Scan() {
		t.Errorf("more: %s", s.out.Bytes())
	}
}

// TestServeShutdown: what came before is answered, what comes after is not read.
func TestServeShutdown(t *testing.T) {
	model, _ := tinyFolder(t)
	s := serve(t, model)
	s.send(`{"id": 1, "op": "logits", "text": "The code is"}`, `{"id": 2, "op": "shutdown"}`)
	for _, want := range []string{"1", "2"} {
		var a answer
		if s.read(&a); !a.OK || string(a.ID) != want {
			t.Errorf("got %s, want reply %s", jsonOf(t, a), want)
		}
	}
	s.ends(exitDone)
}

// TestServeInterrupt: Ctrl-C stops what runs and ends with 130.
func TestServeInterrupt(t *testing.T) {
	model, _ := tinyFolder(t)
	s := serve(t, model)
	s.send(`{"id": 1, `+long+`}`, `{"id": 2, "op": "cancel", "target": 77}`)
	var a answer
	if s.read(&a); string(a.ID) != "2" { // the first one runs
		t.Fatalf("got %s", jsonOf(t, a))
	}
	s.cancel()
	if s.read(&a); a.OK || a.Error.Code != exitInterrupted {
		t.Errorf("got %s", jsonOf(t, a))
	}
	s.ends(exitInterrupted)

	s = serve(t, model) // and while it waits
	s.cancel()
	s.ends(exitInterrupted)
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestServeNobodyListens: a reply that cannot be written ends the process.
func TestServeNobodyListens(t *testing.T) {
	model, _ := tinyFolder(t)
	inR, inW := io.Pipe()
	defer inW.Close()
	var stderr bytes.Buffer
	a := &app{in: inR, out: fullDisk{}, err: &stderr, getenv: os.Getenv}
	if code := a.run(context.Background(), []string{"serve", model, "--device", "go"}); code != exitFailed || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// TestServeQueue: more than maxQueued requests are refused, not kept.
func TestServeQueue(t *testing.T) {
	var out bytes.Buffer
	s := newServer(&app{out: &out}, nil)
	for i := range maxQueued + 2 {
		s.take(context.Background(), fmt.Appendf(nil, `{"id": %d, "op": "info"}`, i))
	}
	if n := strings.Count(out.String(), fmt.Sprintf("%d requests are waiting", maxQueued)); n != 2 || len(s.queue) != maxQueued {
		t.Errorf("%d refused, %d kept", n, len(s.queue))
	}
}

func TestReadLine(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader("one\n"+strings.Repeat("x", 100)+"\ntwo\n"+strings.Repeat("y", 40)+"\nend"), 16)
	var got []string
	for {
		line, err := readLine(in, 50)
		var tooLong *longLineError
		if errors.As(err, &tooLong) {
			line = []byte("LONG")
		}
		got = append(got, strings.TrimSpace(string(line)))
		if err == io.EOF {
			break
		}
	}
	if want := []string{"one", "LONG", "two", strings.Repeat("y", 40), "end"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzServeLine: any line is queued, or answered with one line of JSON.
func FuzzServeLine(f *testing.F) {
	for _, seed := range []string{`{"id":1,"op":"info"}`, `{"id":"a","op":"cancel","target":2}`, `{"id":1e9,"op":"logits","text":"\ud800"}`, `{}`, `{"id":{`, "\xff", `{"id":1,"op":"shutdown"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var out bytes.Buffer
		s := newServer(&app{out: &out}, nil)
		s.take(context.Background(), line)
		if len(s.queue) == 1 && out.Len() == 0 {
			if !json.Valid(s.queue[0].id) {
				t.Errorf("queued under %q", s.queue[0].id)
			}
			return
		}
		var a answer
		if len(s.queue) > 0 || bytes.Count(out.Bytes(), []byte("\n")) != 1 || json.Unmarshal(out.Bytes(), &a) != nil || a.OK == (a.Error != nil) {
			t.Errorf("%d queued, answer %q", len(s.queue), out.String())
		}
	})
}

// TestPythonClient runs the client of docs/serve.md.
func TestPythonClient(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```python\n")
	client, _, ok := strings.Cut(rest, "```")
	if n := strings.Count(strings.TrimSpace(client), "\n") + 1; !ok || n > 30 {
		t.Fatalf("the client has %d lines, want at most 30", n)
	}
	if err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 8)").Run(); err != nil {
		t.Skip("NOT RUN: no python3 of 3.8 or later")
	}
	model, prompts := tinyFolder(t)
	script := client + `
import sys
model, prompts = sys.argv[1:]
hs = Headscope(model, "--device", "go", "--quiet")
assert hs.ready["protocol"] == 1, hs.ready
info = hs.info()
assert info["layers"] == 3 and "attention" in info["ops"], info
assert [t["text"] for t in hs.tokenize(text="The code")][0] == "The"
plain = hs.logits(text="The code is", top_k=3)["top"]
edited = hs.logits(text="The code is", top_k=3, edits=["zero:L0H1,L1H2"])["top"]
assert plain != edited and plain == hs.logits(text="The code is", top_k=3)["top"]
try:
    hs.logits(text="The code is", edits=["zero:L9H9"])
    raise SystemExit("no error")
except RuntimeError as e:
    assert "code 2" in str(e), e
row = hs.attention(prompts=prompts, prompt="p1", heads=["L1H2"])["rows"][0]
assert abs(sum(row["weights"]) - 1) < 1e-5
hs.process.stdin.write('{"id": "old", "op": "info"}\n')  # as if its wait had been interrupted
cont = hs.generate(text="The code is – ü", max_new=3)
assert len(cont["ids"]) == 3, cont
assert hs.score(text="The code is – ü", answer_ids=cont["ids"])["greedy"]
hs.shutdown()
assert hs.process.wait() == 0
try:
    Headscope("nowhere")
    raise SystemExit("no error")
except RuntimeError as e:
    assert "ended with code 1" in str(e), e
print("ok")
`
	path := filepath.Join(t.TempDir(), "session.py")
	if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "python3", path, model, prompts).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "ok") {
		t.Errorf("%v: %s", err, out)
	}
}
