package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// lines lets the phases, the watchdog's warnings and its log write to one writer.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements [io.Writer].
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(text)
}

// say prints a line. It ignores the error: there is no other place to report it.
func (s *session) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

func (s *session) reportAttached(wd *watchdog.Watchdog) {
	s.say("session %s", s.kept.ID)
	s.say("state   %s", s.dir)
	s.say("project %s", projectName(s.kept))
	s.say("window  since %s, %s elapsed, %s", clockTime(wd.StartedAt()), brief(wd.Elapsed()), leftOf(wd))
	s.say("limits\n%s", s.limits.table)
	if s.limits.budget.WallClock == watchdog.NoLimit {
		s.say("without a wall-clock limit nothing stops this session")
	} else {
		s.say("plan    %s: each a command; if the limit comes first, the session is BLOCKED, the", phaseNames())
		s.say("        reason is on record, and a command that resumes it is printed")
	}
	if len(s.kept.Completed) > 0 {
		s.say("done    %s", strings.Join(s.kept.Completed, ", "))
	}
}

func (s *session) reportStart(p phase) {
	what := p.String()
	if s.opts.hang == p.name {
		what = "hangs, as asked"
	}
	s.say("%-6s %d of %d: %s", p.name, len(s.kept.Completed)+1, len(pipeline), what)
}

func (s *session) reportWarning(w watchdog.Warning) {
	s.say("warning: %v%% of the budget of %s is used, %s left", w.Fraction*100, w.Budget, brief(w.Remaining))
}

func (s *session) reportComplete() {
	s.say("COMPLETE: %s", strings.Join(s.kept.Completed, ", "))
	s.say("  once more:   %s", s.command(s.resumeFlags()...))
	s.say("               which opens a fresh window and runs all phases again")
}

func (s *session) reportBlocked() {
	s.say("BLOCKED in phase %s: %s", s.kept.Phase, s.stop.Code)
	s.say("  %s of %s were used in the window since %s",
		brief(s.stop.Elapsed), s.stop.Budget, clockTime(s.stop.StartedAt))
	s.say("  its events:  %s", s.command("-events"))
	s.say("  to go on:    %s", s.command(s.resumeFlags()...))
	s.say("               which opens a fresh window; -budget sets how long it may last")
}

func (s *session) reportInterrupted(signal string) {
	where := "after the last phase"
	if s.kept.Phase != "" {
		where = "in phase " + s.kept.Phase
	}
	s.say("INTERRUPTED by %s %s", signal, where)
	s.say("  to go on:    %s", s.command())
}

func (s *session) reportFailed(failed *failure) {
	s.say("FAILED in %v", failed)
	if end := tail(failed.log); end != "" {
		s.say("%s", end)
	}
	s.say("  its output:  %s", failed.log)
	s.say("  to go on:    %s", s.command())
}

// tail returns the end of a log, or why it cannot be read.
func tail(path string) string {
	const mostLines, mostBytes = 20, 16 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	text = text[max(0, len(text)-mostBytes):]
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-mostLines):], "\n")
}

func projectName(kept *state.Session) string {
	if kept.Project == "" {
		return "the built-in demo"
	}
	return kept.Project
}

func leftOf(wd *watchdog.Watchdog) string {
	left := wd.Remaining()
	switch left {
	case watchdog.NoLimit:
		return "no limit"
	case 0:
		return "nothing left"
	}
	return (left + time.Second - 1).Truncate(time.Second).String() + " left"
}

// brief formats a duration without insignificant digits.
func brief(d time.Duration) string {
	if d < time.Second {
		return d.Truncate(time.Millisecond).String()
	}
	return d.Truncate(100 * time.Millisecond).String()
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// command returns the shell command that runs this program on this session with more flags.
func (s *session) command(flags ...string) string {
	words := slices.Concat(self(), []string{"-state", string(s.dir), "-session", s.kept.ID}, flags)
	for i, word := range words {
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

// resumeFlags returns the flags that resume the session with the same limits file.
func (s *session) resumeFlags() []string {
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

// self returns how to start this program: its path, or go run with its package.
func self() []string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	if info, ok := debug.ReadBuildInfo(); ok && builtByRun.MatchString(filepath.ToSlash(path)) {
		return []string{"go", "run", info.Path}
	}
	return []string{path}
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
