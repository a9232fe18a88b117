package loader

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// parseObject reads one JSON object. encoding/json takes a repeated key without a word and keeps the last one; here it is an error at
// any depth, since two readers could then see two models in one file.
func parseObject(file string, data []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := refuseRepeatedKeys(dec, "", 0); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: got more than one JSON value, want one object", file)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if m == nil {
		return nil, fmt.Errorf("%s: got null, want an object", file)
	}
	return m, nil
}

// refuseRepeatedKeys consumes one value of dec; path names it in errors, depth counts what it lies in.
func refuseRepeatedKeys(dec *json.Decoder, path string, depth int) error {
	const deepest = 32 // published configs stay below 6; the decoder itself has no limit
	if depth > deepest {
		return fmt.Errorf("%.60s: got more than %d levels of nesting", path, deepest)
	}
	tok, err := dec.Token()
	if err != nil {
		return unexpectedEnd(err)
	}
	open, isDelim := tok.(json.Delim)
	if !isDelim {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return unexpectedEnd(err)
			}
			name := key.(string) // the decoder allows nothing else here
			if at = name; path != "" {
				at = path + "." + name
			}
			if seen[name] {
				return fmt.Errorf("%s: got the key twice, want it once", at)
			}
			seen[name] = true
		}
		if err := refuseRepeatedKeys(dec, at, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return unexpectedEnd(err)
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
