package config

import (
	"cmp"
	"slices"
)

// choice is the kind of a setting with one of a few words.
type choice[T ~string] struct {
	field    func(*Config) *T
	what     string // describes the words in errors
	known    []T
	fallback T // the default
	offWord  T // the word for off, if there is one
}

func (k choice[T]) fromVariable(text string) value { return fromText(text) }

func (k choice[T]) set(c *Config, v value) *invalidValue {
	if problem := wordProblem(v); problem != "" {
		return v.invalid(problem)
	}
	if known := words(k.known); !slices.Contains(known, v.text) {
		return v.invalid(unknownWord(v.text, k.what, known))
	}
	*k.field(c) = T(v.text)
	return nil
}

func (k choice[T]) show(c *Config) string { return string(cmp.Or(*k.field(c), k.fallback)) }
func (k choice[T]) off(c *Config) bool    { return *k.field(c) == "" || *k.field(c) == k.offWord }
func (k choice[T]) disable(c *Config)     { *k.field(c) = "" }
