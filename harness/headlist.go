package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/headscope/headscope/heads"
)

const headListAdvice = "give L18H6,L8H0 or [[18,6],[8,0]], each head once, or a file of such a list, or a result"

// ReadHeads reads heads to knock out, best first: a file (a list, or a result of ours) or a list as text. exclude holds those that
// are no controls for them: the heads themselves and, from a result, whatever its detectors flag.
func ReadHeads(list string) (ranking heads.Ranking, exclude heads.Set, err error) {
	ranking, listErr := heads.ParseRanking(list)
	if listErr == nil {
		return ranking, ranking.Set(), nil
	}
	data, err := os.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG) {
		return nil, nil, usagef(headListAdvice, "heads %q: no such file, nor a list: %w", list, listErr)
	}
	if err != nil {
		return nil, nil, err
	}
	if ranking, err = heads.ReadRanking(list); err != nil {
		return nil, nil, &hintError{err, headListAdvice}
	}
	exclude = ranking.Set()
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return ranking, exclude, nil
	}
	var r struct {
		Schema    int        `json:"schema"`
		Detection *Detection `json:"detection"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, nil, &hintError{fmt.Errorf("%s: %w", list, err), headListAdvice}
	}
	if r.Schema > schemaVersion {
		return nil, nil, &hintError{fmt.Errorf("%s: schema %d, want at most %d", list, r.Schema, schemaVersion), "a newer headscope wrote it"}
	}
	if r.Detection != nil {
		exclude = exclude.Union(r.Detection.flagged())
	}
	return ranking, exclude, nil
}

// flagged is the union of what argmax_last and copy_tf call retrieval heads.
func (d *Detection) flagged() heads.Set {
	var out heads.Set
	for _, name := range []string{"argmax_last", "copy_tf"} {
		if s, ok := d.Score(name); ok {
			out = out.Union(s.AtLeast(d.Threshold))
		}
	}
	return out
}
