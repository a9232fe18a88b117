package heads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// StrictJSON returns JSON in which every bare NaN, which Python's json writes for a missing number, is null. Strings are left as they
// are; so is everything else, infinities among it, for the decoder to refuse. Lines keep their numbers. Without a NaN it is data itself.
func StrictJSON(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	inside := false // a string
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case inside && c == '\\' && i+1 < len(data):
			out = append(out, c)
			i++
			c = data[i]
		case c == '"':
			inside = !inside
		case !inside && isNaN(data, i):
			out = append(out, "null"...)
			i += len("NaN") - 1
			continue
		}
		out = append(out, c)
	}
	return out
}

// isNaN reports whether a NaN stands at i as a JSON value, not as a part of something longer.
func isNaN(data []byte, i int) bool {
	end := i + len("NaN")
	if end > len(data) || string(data[i:end]) != "NaN" {
		return false
	}
	return (i == 0 || bytes.IndexByte([]byte(" \t\r\n[,:"), data[i-1]) >= 0) && (end == len(data) || bytes.IndexByte([]byte(" \t\r\n],}"), data[end]) >= 0)
}

// DecodeJSON decodes one JSON value that may hold bare NaN and is followed by nothing. Errors name the line.
func DecodeJSON(data []byte, v any) error {
	data = StrictJSON(data)
	err := json.Unmarshal(data, v)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", line(data, syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("line %d: %w", line(data, kind.Offset), err)
	}
	return err
}

// line is the number, from 1, of the line that an offset lies in.
func line(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
}
