package loader

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

const configFile = "config.json"

// config reads the keys of one JSON object and remembers which were read, so that a key nobody asked for can be refused. The first
// error is kept and later reads return zero values; callers look once, at the end. A null is the same as an absent key where the default is
// nothing, false or 0; where it is more, transformers' classes fail on a null or take it for something else, and it is refused.
type config struct {
	file   string
	prefix string // path of the object inside the file, "" or "rope_scaling."
	keys   map[string]json.RawMessage
	read   map[string]bool
	err    error
}

func newConfig(file string, data []byte) (*config, error) {
	keys, err := parseObject(file, data)
	if err != nil {
		return nil, err
	}
	return &config{file: file, keys: keys, read: map[string]bool{}}, nil
}

// fail records err, if it is the first; nil is none.
func (c *config) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// want records that key has a value that makes no sense.
func (c *config) want(key, got, want string) {
	c.fail(&ConfigError{File: c.file, Key: c.prefix + key, Got: got, Want: want})
}

// refuse records that key has a value that this module does not compute.
func (c *config) refuse(key, want, hint string) {
	c.refuseValue(key, shown(c.keys[key]), want, hint)
}

// refuseValue is refuse for a value that does not stand under key alone.
func (c *config) refuseValue(key, got, want, hint string) {
	c.fail(&UnsupportedError{File: c.file, Key: c.prefix + key, Got: got, Want: want, hint: hint})
}

// null tells whether key is there and null.
func (c *config) null(key string) bool { return c.present(key) && !c.has(key) }

// present tells whether key is there, be it null.
func (c *config) present(key string) bool {
	_, ok := c.keys[key]
	return ok
}

func (c *config) has(key string) bool {
	raw, ok := c.keys[key]
	return ok && string(raw) != "null"
}

// value decodes key into v, a pointer, and reports whether it is there; kind names the type in errors.
func (c *config) value(key, kind string, v any) bool {
	c.read[key] = true
	if !c.has(key) {
		return false
	}
	if json.Unmarshal(c.keys[key], v) != nil {
		c.want(key, shown(c.keys[key]), kind)
		return false
	}
	return true
}

// notNull refuses a null under key, which has the default def.
func (c *config) notNull(key string, def any) {
	if c.null(key) {
		c.want(key, "null", fmt.Sprintf("a value, or no such key, which stands for %v", def))
	}
}

// required is the default of integer for keys without a class default.
const required = -1

// integer reads a whole number from 1 to 2^31-1, or def where the key is absent.
func (c *config) integer(key string, def int) int {
	const kind = "a whole number from 1 to 2147483647"
	var x float64
	if !c.value(key, kind, &x) {
		if def == required {
			c.want(key, "nothing", kind)
		} else if def != 0 {
			c.notNull(key, def)
		}
		return def
	}
	if x != math.Trunc(x) || x < 1 || x > math.MaxInt32 {
		c.want(key, shown(c.keys[key]), kind)
		return def
	}
	return int(x)
}

// nullableInteger reads as integer does, but takes null for 0, which stands for "none": of such a key transformers' classes have a default
// that null does not bring back.
func (c *config) nullableInteger(key string, def int) int {
	if c.null(key) {
		c.read[key] = true
		return 0
	}
	return c.integer(key, def)
}

// nullableFloat is nullableInteger for a finite number above 0.
func (c *config) nullableFloat(key string, def float64) float64 {
	if c.null(key) {
		c.read[key] = true
		return 0
	}
	return c.float(key, def)
}

// index reads a whole number from 0 on, or def where the key is absent.
func (c *config) index(key string, def int) int {
	const kind = "a whole number from 0 to 2147483647"
	x := float64(def)
	switch there := c.value(key, kind, &x); {
	case !there && def != 0:
		c.notNull(key, def)
	case x != math.Trunc(x) || x < 0 || x > math.MaxInt32:
		c.want(key, shown(c.keys[key]), kind)
		return def
	}
	return int(x)
}

// float reads a finite number above 0, or def where the key is absent.
func (c *config) float(key string, def float64) float64 {
	const kind = "a finite number above 0"
	x := def
	if c.value(key, kind, &x) {
		if !(x > 0) {
			c.want(key, shown(c.keys[key]), kind)
		}
	} else if def != 0 {
		c.notNull(key, def)
	}
	return x
}

// nonNegative reads a finite number from 0 on, or def where the key is absent.
func (c *config) nonNegative(key string, def float64) float64 {
	const kind = "a finite number from 0 on"
	x := def
	if c.value(key, kind, &x) && !(x >= 0) {
		c.want(key, shown(c.keys[key]), kind)
	}
	return x
}

func (c *config) boolean(key string, def bool) bool {
	x := def
	if !c.value(key, "true or false", &x) && def {
		c.notNull(key, def)
	}
	return x
}

func (c *config) text(key, def string) string {
	x := def
	if !c.value(key, "a string", &x) && def != "" {
		c.notNull(key, def)
	}
	return x
}

// tokenIDs reads one token id or a list of them; vocab bounds them. Where the key is absent the ids of def that vocab allows are returned.
func (c *config) tokenIDs(key string, vocab int, def []int32) []int32 {
	c.read[key] = true
	if !c.present(key) {
		return slices.DeleteFunc(slices.Clone(def), func(id int32) bool { return int(id) >= vocab })
	}
	if !c.has(key) {
		return nil
	}
	var ids []int32
	var one int32
	if json.Unmarshal(c.keys[key], &one) == nil {
		ids = []int32{one}
	} else if json.Unmarshal(c.keys[key], &ids) != nil {
		c.want(key, shown(c.keys[key]), "a token id or a list of them")
		return nil
	}
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			c.want(key, fmt.Sprint(id), fmt.Sprintf("an id of the vocabulary, 0 to %d", vocab-1))
		}
	}
	return ids
}

// object reads a nested object; nil where it is absent or null. Its keys have to be finished by the caller.
func (c *config) object(key string) *config {
	var keys map[string]json.RawMessage
	if !c.value(key, "an object", &keys) {
		return nil
	}
	return &config{file: c.file, prefix: c.prefix + key + ".", keys: keys, read: map[string]bool{}}
}

// ignore marks keys that change no number of a forward pass.
func (c *config) ignore(keys ...string) {
	for _, k := range keys {
		c.read[k] = true
	}
}

// finish refuses the keys that nobody read and returns the first error. A null does not count: it switches off what is not there.
func (c *config) finish() error {
	var unknown []string
	for k := range c.keys {
		if !c.read[k] && c.has(k) {
			unknown = append(unknown, k)
		}
	}
	slices.Sort(unknown)
	if c.err == nil && len(unknown) > 0 {
		k := unknown[0]
		more := ""
		if len(unknown) > 1 {
			more = " (the same holds for " + strings.Join(unknown[1:], ", ") + ")"
		}
		c.fail(&UnsupportedError{File: c.file, Key: c.prefix + k, Got: shown(c.keys[k]), Want: "a key that the family is known to read" + more,
			hint: "the key may change what the model computes; if it does not, it belongs on the family's list of harmless keys"})
	}
	return c.err
}
