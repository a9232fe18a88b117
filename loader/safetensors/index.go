package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// index is a model.safetensors.index.json.
type index struct {
	path      string
	weightMap map[string]string // tensor -> shard
	totalSize string            // metadata.total_size as written, empty where absent
}

func (x *index) broken(rule Rule, format string, args ...any) error {
	return &IndexError{File: x.path, Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

// openIndexed opens the shards of an index and holds map and shards against each other, both ways.
func openIndexed(path string) (_ *Store, err error) {
	x, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	shards := map[string]*File{}
	defer func() {
		if err != nil {
			for _, f := range shards {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(x.shards())) {
		if err := checkShardName(name); err != nil {
			return nil, x.broken(RuleShardName, "%.80q: %v", name, err)
		}
		f, err := OpenFile(filepath.Join(filepath.Dir(path), name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, x.broken(RuleShardMissing, "%s", name)
		}
		if err != nil {
			return nil, err
		}
		shards[name] = f
	}
	if err := x.checkTensors(shards); err != nil {
		return nil, err
	}
	files := make([]*File, 0, len(shards))
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		files = append(files, shards[name])
	}
	return newStore(path, files), nil
}

func readIndex(path string) (*index, error) {
	x := &index{path: path}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(f, MaxHeader+1))
	if err != nil {
		return nil, err
	}
	if n > MaxHeader {
		return nil, x.broken(RuleIndexTooLarge, "want at most %d bytes", MaxHeader)
	}
	if !utf8.ValidString(b.String()) {
		return nil, x.broken(RuleUTF8, "")
	}
	if bad := x.parse(&scanner{s: b.String()}); bad != nil {
		return nil, x.broken(bad.Rule, "%s", bad.Detail)
	}
	if len(x.weightMap) == 0 {
		return nil, x.broken(RuleIndexField, "want a weight_map with tensors")
	}
	return x, nil
}

func (x *index) parse(s *scanner) *HeaderError {
	seen := map[string]bool{}
	err := s.object(func(key string) *HeaderError {
		if seen[key] {
			return broken(RuleDuplicateKey, "%.80q", key)
		}
		seen[key] = true
		switch key {
		case "weight_map":
			return x.readWeightMap(s)
		case "metadata":
			return x.readMetadata(s)
		}
		_, err := s.skip(1)
		return err
	})
	if err == nil {
		err = s.end()
	}
	return err
}

func (x *index) readWeightMap(s *scanner) *HeaderError {
	if s.peek() != '{' {
		return broken(RuleIndexField, "weight_map: got %s, want an object", s.found())
	}
	x.weightMap = map[string]string{}
	return s.object(func(tensor string) *HeaderError {
		if _, ok := x.weightMap[tensor]; ok {
			return broken(RuleDuplicateKey, "weight_map: %.80q", tensor)
		}
		if s.peek() != '"' {
			return broken(RuleIndexField, "weight_map: %.80q: got %s, want a file name", tensor, s.found())
		}
		shard, err := s.str()
		if err == nil {
			x.weightMap[tensor] = shard
		}
		return err
	})
}

// readMetadata keeps total_size; what else writers put beside it describes the checkpoint and changes nothing here.
func (x *index) readMetadata(s *scanner) *HeaderError {
	if s.peek() != '{' {
		_, err := s.skip(1)
		return err
	}
	seen := map[string]bool{}
	return s.object(func(key string) *HeaderError {
		if seen[key] {
			return broken(RuleDuplicateKey, "metadata: %.80q", key)
		}
		seen[key] = true
		number, err := s.skip(2)
		if err == nil && key == "total_size" {
			if x.totalSize = number; number == "" {
				err = broken(RuleIndexTotalSize, "want a number")
			}
		}
		return err
	})
}

func (x *index) shards() map[string]bool {
	names := map[string]bool{}
	for _, shard := range x.weightMap {
		names[shard] = true
	}
	return names
}

// checkShardName refuses what could lead out of the index's folder, on any system: an index is not trusted more than a header.
func checkShardName(name string) error {
	switch {
	case strings.ContainsAny(name, `/\:`+"\x00"):
		return errors.New("want a file name without a path")
	case name == "." || !filepath.IsLocal(name):
		return errors.New("want the name of a file")
	}
	return nil
}

// checkTensors holds every mapped tensor against its shard, every shard's tensor against the map, and the sum against total_size.
func (x *index) checkTensors(shards map[string]*File) error {
	for _, tensor := range slices.Sorted(maps.Keys(x.weightMap)) {
		if _, ok := shards[x.weightMap[tensor]].find(tensor); !ok {
			return x.broken(RuleIndexTensorMissing, "%.80q: want it in %s", tensor, x.weightMap[tensor])
		}
	}
	var total int64
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		for _, t := range shards[shard].tensors {
			total += t.End - t.Begin
			switch mapped, ok := x.weightMap[t.Name]; {
			case !ok:
				return x.broken(RuleIndexTensorExtra, "%.80q: in %s", t.Name, shard)
			case mapped != shard:
				return x.broken(RuleIndexTensorTwice, "%.80q: in %s and %s", t.Name, mapped, shard)
			}
		}
	}
	return x.checkTotal(total)
}

func (x *index) checkTotal(total int64) error {
	if x.totalSize == "" {
		return nil
	}
	// Some writers put 1.2e9 or 1200.0. An exponent is bounded before big.Rat, which would spell it out in memory.
	ok := len(x.totalSize) <= 40
	if _, exp, found := strings.Cut(strings.ToLower(x.totalSize), "e"); ok && found {
		ok = len(strings.TrimLeft(exp, "+-0")) <= 2
	}
	if ok {
		var want *big.Rat
		want, ok = new(big.Rat).SetString(x.totalSize)
		ok = ok && want.Cmp(new(big.Rat).SetInt64(total)) == 0
	}
	if !ok {
		return x.broken(RuleIndexTotalSize, "got %.40s, want %d, the sum of the shards' tensors", x.totalSize, total)
	}
	return nil
}
