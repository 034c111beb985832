package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// command returns the shell command that runs this program on this session with more flags.
func (s *session) command(flags ...string) string {
	words := slices.Concat(program(), []string{"-state", s.dir.Path(), "-session", s.kept.ID}, flags)
	for i, word := range words {
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

// resume returns the flags that resume the session with the same limits file.
func (s *session) resume() []string {
	if s.opts.config == "" {
		return []string{"-resume"}
	}
	file, err := filepath.Abs(s.opts.config)
	if err != nil {
		file = s.opts.config
	}
	return []string{"-resume", "-config", file}
}

// builtByRun matches the temporary and the cached binaries of go run.
var builtByRun = regexp.MustCompile(`/go-build\d+/b\d+/exe/|/[0-9a-f]{2}/[0-9a-f]{64}-d/`)

// program returns how to start this program: its name, its path, or go run with its package.
func program() []string {
	info, ok := debug.ReadBuildInfo()
	path, err := os.Executable()
	switch {
	case err == nil && ok && builtByRun.MatchString(filepath.ToSlash(path)):
		return []string{"go", "run", info.Path}
	case err == nil && filepath.Base(os.Args[0]) != os.Args[0]:
		return []string{path}
	}
	return []string{os.Args[0]}
}

// plain matches words that a shell does not change.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote returns the word quoted for a POSIX shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
