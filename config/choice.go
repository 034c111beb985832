package config

import (
	"cmp"
	"slices"
)

// choice is the kind of a setting that is one of a few words.
type choice[T ~string] struct {
	field    func(*Config) *T
	what     string // what the words are, for errors
	known    []T
	standard T // the default
	none     T // the word that switches the setting off, if there is one
}

func (k choice[T]) fromVariable(text string) value { return written(text) }

func (k choice[T]) set(c *Config, v value) *flaw {
	if problem := wordProblem(v); problem != "" {
		return v.flaw(problem)
	}
	if known := words(k.known); !slices.Contains(known, v.text) {
		return v.flaw(unknownWord(v.text, k.what, known))
	}
	*k.field(c) = T(v.text)
	return nil
}

func (k choice[T]) show(c *Config) string { return string(cmp.Or(*k.field(c), k.standard)) }
func (k choice[T]) off(c *Config) bool    { return *k.field(c) == "" || *k.field(c) == k.none }
func (k choice[T]) rest(c *Config)        { *k.field(c) = "" }
