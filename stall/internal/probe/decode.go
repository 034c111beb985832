package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"unicode/utf8"
)

// A decoder reads JSON more strictly than encoding/json: one object, no duplicate keys and only valid Unicode. It keeps
// numbers as they are written. It returns no errors of encoding/json, because these quote what they read.
type decoder struct{ *json.Decoder }

// decode returns the object. Its values are nil, bool, string, [json.Number], []any and map[string]any.
func decode(output []byte) (map[string]any, error) {
	if !utf8.Valid(output) {
		return nil, ErrNotText
	}
	d := decoder{json.NewDecoder(bytes.NewReader(output))}
	d.UseNumber()
	start, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it printed nothing", ErrNotObject)
	}
	if err != nil || start != json.Delim('{') {
		return nil, fmt.Errorf("%w: it printed something else", ErrNotObject)
	}
	object, err := d.object(1)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: there is more after it", ErrNotObject)
	}
	if hasLoneSurrogate(output) {
		return nil, ErrNotText
	}
	return object, nil
}

func (d decoder) value(depth int) (any, error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return nil, d.at(ErrNotObject)
	case token == json.Delim('{'):
		return d.object(depth + 1)
	case token == json.Delim('['):
		return d.array(depth + 1)
	}
	return token, nil
}

// object reads the rest of an object, after the brace.
func (d decoder) object(depth int) (map[string]any, error) {
	if depth > MaxDepth {
		return nil, d.at(ErrTooDeep)
	}
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, d.at(ErrNotObject)
		}
		if _, twice := object[key]; twice {
			return nil, d.at(ErrDuplicateKey)
		}
		if object[key], err = d.value(depth); err != nil {
			return nil, err
		}
	}
	return object, d.end()
}

// array reads the rest of an array, after the bracket.
func (d decoder) array(depth int) ([]any, error) {
	if depth > MaxDepth {
		return nil, d.at(ErrTooDeep)
	}
	array := []any{}
	for d.More() {
		value, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	return array, d.end()
}

func (d decoder) end() error {
	if _, err := d.Token(); err != nil {
		return d.at(ErrNotObject)
	}
	return nil
}

func (d decoder) at(err error) error {
	return fmt.Errorf("%w (near byte %d)", err, d.InputOffset())
}

// whole matches every escape but one half of a surrogate pair. It is compiled when it is used first: few programs have
// a probe.
var whole = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\\(?:[^u]|u(?i:[^d]...|d[0-7]..|d[89ab]..\\ud[c-f]..))`)
})

// hasLoneSurrogate reports whether valid JSON has an escape that is one half of a surrogate pair without the other
// half. encoding/json replaces all of them with the same character.
func hasLoneSurrogate(text []byte) bool {
	return bytes.Contains(text, []byte(`\u`)) && bytes.Contains(whole().ReplaceAll(text, nil), []byte(`\`))
}
