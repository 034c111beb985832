package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// command is what to type to do something with this session, from the same directory.
func (s *session) command(flags ...string) string {
	words := slices.Concat(program(), []string{"-state", s.dir.Path(), "-session", s.kept.ID}, flags)
	for i, word := range words {
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

// resume are the flags that resume the session under the limits of the same file.
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

// builtByRun are the places in which go run leaves a program: one that is deleted, and the build cache.
var builtByRun = regexp.MustCompile(`/go-build\d+/b\d+/exe/|/[0-9a-f]{2}/[0-9a-f]{64}-d/`)

// program is how this program is started: by its name, its path, or with go run by its package.
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

// plain are texts that no shell changes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote is a word as a POSIX shell takes it.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
