package rope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
)

// File is a table as a file of one JSON object, with exactly these keys:
//
//	{"name": "learned", "planes": [1, 0.25, 0.0625], "layout": "rotate_half"}
//
// A number is written with as many digits as give back the same float64.
type File struct {
	Name   string    `json:"name"`   // letters, digits and . _ / - only, so that edits and results can be named by it
	Planes []float64 `json:"planes"` // frequencies, radians a token, each from 0 to MaxFrequency; twice as many dimensions rotate
	Layout Layout    `json:"layout"` // which dimensions plane i has
}

var fileName = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// Check reports the first thing that a file may not hold.
func (f *File) Check() error {
	if !fileName.MatchString(f.Name) {
		return fmt.Errorf("name: got %q, want letters, digits and . _ / - only", f.Name)
	}
	if len(f.Planes) == 0 {
		return fmt.Errorf("planes: got none, want a frequency for each plane")
	}
	for i, w := range f.Planes {
		if !(w >= 0 && w <= MaxFrequency) {
			return fmt.Errorf("planes[%d]: got %v, want a number from 0 to %d", i, w, MaxFrequency)
		}
	}
	return f.Layout.Check()
}

// Table returns the file's table, factor on cosine and sine 1.
func (f *File) Table() *Table { return plain(f.Planes) }

// ReadFile reads a table file. A key that is missing, unknown or there twice, a value out of range and anything behind the object are
// errors that name the file and the place.
func ReadFile(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	f, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Decode reads the text of a table file.
func Decode(data []byte) (*File, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		if err == nil {
			err = fmt.Errorf("got %v", token)
		}
		return nil, at(dec, fmt.Errorf(`want an object {"name", "planes", "layout"}: %w`, err))
	}
	var f File
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, at(dec, err)
		}
		key, _ := token.(string) // a key is nothing else
		if seen[key] {
			return nil, fmt.Errorf("key %q is there twice", key)
		}
		seen[key] = true
		switch key {
		case "name":
			err = dec.Decode(&f.Name)
		case "layout":
			err = dec.Decode(&f.Layout)
		case "planes":
			f.Planes, err = decodePlanes(dec)
		default:
			return nil, fmt.Errorf(`key %q: want "name", "planes" and "layout" only`, key)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if _, err := dec.Token(); err != nil { // }
		return nil, at(dec, err)
	}
	for _, key := range []string{"name", "planes", "layout"} {
		if !seen[key] {
			return nil, fmt.Errorf("key %q is missing", key)
		}
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, at(dec, fmt.Errorf("want nothing behind the object"))
	}
	return &f, f.Check()
}

// decodePlanes tells null, which would otherwise be read as 0, from a number.
func decodePlanes(dec *json.Decoder) ([]float64, error) {
	var list []*float64
	if err := dec.Decode(&list); err != nil {
		return nil, err
	}
	out := make([]float64, len(list))
	for i, w := range list {
		if w == nil {
			return nil, fmt.Errorf("[%d]: got null, want a number", i)
		}
		out[i] = *w
	}
	return out, nil
}

func at(dec *json.Decoder, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
}

// Encode is the text that Decode reads.
func (f *File) Encode() ([]byte, error) {
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	data, err := json.Marshal(f)
	return append(data, '\n'), err
}
