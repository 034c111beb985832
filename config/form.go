package config

import (
	"regexp"
	"sync"
)

// A form is what a text must look like. It is compiled when it is used first, because every program that imports the
// package would wait for all of them as it starts.
type form func() *regexp.Regexp

func formOf(pattern string) form {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
