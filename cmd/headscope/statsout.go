package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/headscope/headscope/stats"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		var value bytes.Buffer
		enc := json.NewEncoder(&value)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
		b.Write(bytes.TrimSpace(value.Bytes()))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encodeStats makes JSON of a result: its fields in order, those of embedded structs among them, and, where some are undefined,
// "undefined" with the reason of each.
func encodeStats(v reflect.Value) any {
	if v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	fields := v.Kind() == reflect.Struct
	switch v.Interface().(type) {
	case stats.Value, stats.Interval:
		fields = false
	}
	out, reasons := object{}, object{}
	if fields {
		addFields(v, &out, &reasons)
	} else {
		out = object{{"value", encodeStat(v, "value", &reasons)}}
	}
	if len(reasons) > 0 {
		out = append(out, member{"undefined", reasons})
	}
	return out
}

func addFields(v reflect.Value, out, reasons *object) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Anonymous && f.Tag.Get("json") == "":
			addFields(v.Field(i), out, reasons)
		case f.IsExported():
			key, omit := strings.CutSuffix(f.Tag.Get("json"), ",omitempty")
			if !omit || !v.Field(i).IsZero() {
				*out = append(*out, member{key, encodeStat(v.Field(i), key, reasons)})
			}
		}
	}
}

// encodeStat encodes one value; key names it among the reasons.
func encodeStat(v reflect.Value, key string, reasons *object) any {
	switch x := v.Interface().(type) {
	case stats.Value:
		if x.Why() != "" {
			*reasons = append(*reasons, member{key, x.Why()})
		}
		return x
	case stats.Interval:
		if x.Why != "" {
			*reasons = append(*reasons, member{key, x.Why})
		}
		return x
	}
	switch v.Kind() {
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			*reasons = append(*reasons, member{key, stats.Number(x).Why()})
			return nil
		}
	case reflect.Struct, reflect.Pointer:
		return encodeStats(v)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = encodeStat(v.Index(i), fmt.Sprintf("%s[%d]", key, i), reasons)
		}
		return list
	}
	return v.Interface()
}
