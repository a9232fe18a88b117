package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// TypeSchema is the JSON Schema (draft 2020-12) of a stored document that is one Go type: closed objects, a field without omitempty
// required, undefined numbers null.
func TypeSchema(title, description string, document any) ([]byte, error) {
	s, err := typeSchema(reflect.TypeOf(document))
	if err != nil {
		return nil, err
	}
	s["$schema"], s["title"], s["description"] = "https://json-schema.org/draft/2020-12/schema", title, description
	b, err := json.MarshalIndent(s, "", " ")
	return append(b, '\n'), err
}

// schemaLeaf gives the types that write themselves.
func schemaLeaf(t reflect.Type) map[string]any {
	count := map[string]any{"type": "integer", "minimum": 0}
	number := map[string]any{"type": []string{"number", "null"}}
	head := map[string]any{"type": "array", "items": count, "minItems": 2, "maxItems": 2}
	switch t {
	case reflect.TypeFor[Number](), reflect.TypeFor[stats.Value]():
		return number
	case reflect.TypeFor[stats.Interval]():
		return map[string]any{"type": []string{"array", "null"}, "items": map[string]any{"type": "number"}, "minItems": 2, "maxItems": 2}
	case reflect.TypeFor[decoder.Head]():
		return head
	case reflect.TypeFor[heads.Set](), reflect.TypeFor[heads.Ranking]():
		return map[string]any{"type": "array", "items": head, "uniqueItems": true}
	case reflect.TypeFor[heads.Scores]():
		return map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"detector", "shape", "n", "data"},
			"properties": map[string]any{
				"detector": map[string]any{"type": "string"}, "n": count, "shape": map[string]any{"type": "array", "items": count, "minItems": 2, "maxItems": 2},
				"data": map[string]any{"type": "array", "items": map[string]any{"type": "array", "items": number}},
			},
		}
	}
	return nil
}

func typeSchema(t reflect.Type) (map[string]any, error) {
	if s := schemaLeaf(t); s != nil {
		return s, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		s, err := typeSchema(t.Elem())
		return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}, err
	case reflect.Struct:
		return structSchema(t)
	case reflect.Slice:
		s, err := typeSchema(t.Elem())
		return map[string]any{"type": "array", "items": s}, err
	case reflect.Map:
		s, err := typeSchema(t.Elem())
		return map[string]any{"type": "object", "additionalProperties": s}, err
	case reflect.String:
		return map[string]any{"type": "string"}, nil
	case reflect.Bool:
		return map[string]any{"type": "boolean"}, nil
	case reflect.Int, reflect.Int32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}, nil
	case reflect.Float64:
		return map[string]any{"type": "number"}, nil
	}
	return nil, fmt.Errorf("schema: got %s, want a type that JSON has", t)
}

func structSchema(t reflect.Type) (map[string]any, error) {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if f.Anonymous && name == "" { // its fields are the outer one's
			inner, err := structSchema(f.Type)
			if err != nil {
				return nil, err
			}
			maps.Copy(properties, inner["properties"].(map[string]any))
			required = append(required, inner["required"].([]string)...)
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("schema: %s.%s has no name in JSON", t, f.Name)
		}
		s, err := typeSchema(f.Type)
		if err != nil {
			return nil, err
		}
		properties[name] = s
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}, nil
}
