// Package upgrades_test runs a program of an older version and one of this version on one database, as a rolling
// upgrade does. docs/upgrades.md says what they do to each other; each of its sentences has a case here.
package upgrades_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// older is the commit that the older program is built from: before hold events named who opened them, and when a host
// asked for a start that the store keeps with a field Continue. Once there is a release, its tag goes here.
const older = "d1964cec063cc93282f81019c8d2b20e792b15cb"

// workspace is what building the older program needs of its tree.
const workspace = `go 1.25.0

use (
	.
	./store/sqlite
)

replace github.com/seed62658d38/watchdog v0.1.0 => .
`

// programs are the paths of the two.
type programs struct{ older, newer string }

func build(t *testing.T) programs {
	t.Helper()
	folder := t.TempDir()
	p := programs{filepath.Join(folder, "older"), filepath.Join(folder, "newer")}
	require.NoError(t, buildOlder(filepath.Join(folder, "tree"), p.older))
	require.NoError(t, goBuild(".", "GOWORK=off", p.newer, "./program"))
	return p
}

func goBuild(folder, env, program, pkg string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", program, pkg)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}

// buildOlder builds the program in the tree of the older version.
func buildOlder(tree, program string) error {
	archive, err := exec.Command("git", "-C", "../..", "archive", older).Output()
	if err != nil {
		return err
	}
	if err := unpack(archive, tree); err != nil {
		return err
	}
	source, err := os.ReadFile("program/main.go")
	if err != nil {
		return err
	}
	within := filepath.Join(tree, "store/sqlite/program")
	if err := errors.Join(
		os.Mkdir(within, 0o700), os.WriteFile(filepath.Join(within, "main.go"), source, 0o600),
		os.WriteFile(filepath.Join(tree, "go.work"), []byte(workspace), 0o600),
	); err != nil {
		return err
	}
	return goBuild(tree, "GOWORK=", program, "./store/sqlite/program")
}

func unpack(archive []byte, folder string) error {
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if file.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(folder, filepath.FromSlash(file.Name))
		text, err := io.ReadAll(files)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
			return err
		}
	}
}

// A pair is a test of both programs on a database.
type pair struct {
	*testing.T
	programs
	file string
}

// A process is one of the programs.
type process struct {
	p       pair
	cmd     *exec.Cmd
	input   io.WriteCloser
	answers *bufio.Scanner
}

func (p pair) start(program string) *process {
	p.Helper()
	cmd := exec.Command(program, p.file)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(p, err)
	output, err := cmd.StdoutPipe()
	require.NoError(p, err)
	require.NoError(p, cmd.Start())
	s := &process{p, cmd, input, bufio.NewScanner(output)}
	p.Cleanup(func() { s.kill() })
	return s
}

// ask has the program do something, and returns its answer.
func (s *process) ask(asked ...string) string {
	s.p.Helper()
	_, err := fmt.Fprintln(s.input, strings.Join(asked, " "))
	require.NoError(s.p, err)
	require.True(s.p, s.answers.Scan(), "it ended by itself")
	answer := s.answers.Text()
	require.NotContains(s.p, answer, "error: ", asked)
	return answer
}

func (s *process) length(asked string) time.Duration {
	s.p.Helper()
	d, err := time.ParseDuration(s.ask(asked))
	require.NoError(s.p, err)
	return d
}

// kill kills the program, if it has not ended.
func (s *process) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// began is the start that hosts pass, some time ago.
var began = time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)

// attached starts a program that attaches to the run.
func (p pair) attached(program string) *process {
	p.Helper()
	s := p.start(program)
	require.Equal(p, began.Format(time.RFC3339Nano), s.ask("attach", "run", began.Format(time.RFC3339Nano)))
	return s
}

// A holdEvent is one of the run's, as far as it is about a hold.
type holdEvent struct {
	Opening  string          `json:"opening"`
	Released float64         `json:"released_seconds"`
	TakenBy  string          `json:"taken_by"`
	Opener   json.RawMessage `json:"opener"`

	id string
}

func (p pair) events(kind string) (all []holdEvent) {
	p.Helper()
	s, err := sqlite.Open(context.Background(), p.file)
	require.NoError(p, err)
	defer s.Close()
	stored, err := s.Read(context.Background(), event.AggregateType, "run")
	require.NoError(p, err)
	for _, e := range stored {
		if e.Type == kind {
			of := holdEvent{id: e.ID}
			require.NoError(p, json.Unmarshal(e.Payload, &of))
			all = append(all, of)
		}
	}
	return all
}

// stillFor is how long a wall clock stands still, or goes on. If it goes on, what it stood still grows by less than
// brief.
const (
	stillFor = 2 * time.Second
	brief    = time.Second
)

// TestUpgrades has both programs work on one database.
func TestUpgrades(t *testing.T) {
	if err := exec.Command("git", "cat-file", "-e", older).Run(); err != nil {
		t.Skip("the older version is not in this clone: run git fetch --unshallow, or see its tag:", err)
	}
	both := build(t)
	for name, test := range map[string]func(p pair){
		"a window goes on, with what either gave it":                              goesOn,
		"an end is one of both":                                                   ends,
		"a start that the newer keeps is the older's":                             func(p pair) { keepsStart(p, p.newer, p.older) },
		"a start that the older keeps is the newer's":                             func(p pair) { keepsStart(p, p.older, p.newer) },
		"the older takes over a hold of the newer that lives, and ends its pause": takesLiving,
		"holds of two keys leave each other alone":                                otherKeys,
		"the newer has its own beside one of the older":                           beside,
		"the newer does not know that the older was killed":                       killedOlder,
		"the older takes over a hold of the newer that was killed":                killedNewer,
		"the older counts a hold that a newer took over from another":             takenBefore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(pair{t, both, filepath.Join(t.TempDir(), "runs.db")})
		})
	}
}

func goesOn(p pair) {
	for _, order := range [][2]string{{p.older, p.newer}, {p.newer, p.older}} {
		one, other := p.attached(order[0]), p.attached(order[1])
		before := other.length("remaining")
		one.ask("extend")
		other.ask("sync")
		require.Greater(p, other.length("remaining"), before+59*time.Minute)
		one.ask("close")
		other.ask("close")
	}
}

func ends(p pair) {
	for i, order := range [][2]string{{p.older, p.newer}, {p.newer, p.older}} {
		run := fmt.Sprint("ends-", i)
		start := began.Format(time.RFC3339Nano)
		one, other := p.start(order[0]), p.start(order[1])
		one.ask("attach", run, start)
		other.ask("attach", run, start)
		one.ask("cancel")
		other.ask("sync")
		require.Equal(p, "user_cancelled", other.ask("fired"))
		late := p.start(order[1])
		late.ask("attach", run, start)
		require.Equal(p, "user_cancelled", late.ask("fired"))
	}
}

func keepsStart(p pair, first, then string) {
	one := p.start(first)
	start := one.ask("attach", "run")
	other := p.start(then)
	require.Equal(p, start, other.ask("attach", "run"))
	one.kill()
	other.kill()
	require.Equal(p, start, p.start(first).ask("attach", "run"))
}

func takesLiving(p pair) {
	newer := p.attached(p.newer)
	newer.ask("hold", "approval")
	older := p.attached(p.older)
	older.ask("hold", "approval")
	require.Equal(p, "true", older.ask("release", "approval"))
	older.ask("close")
	require.Len(p, p.events(event.Hold), 1, "it is the newer's")
	time.Sleep(stillFor)
	require.Greater(p, newer.length("paused"), stillFor, "in its own process it counts")
	require.Equal(p, "true", newer.ask("release", "approval"))
	newer.ask("close")
	require.Len(p, p.events(event.Release), 1, "and its release is dropped")
	require.Less(p, p.attached(p.newer).length("paused"), stillFor)
}

func otherKeys(p pair) {
	newer := p.attached(p.newer)
	newer.ask("hold", "approval-2")
	older := p.attached(p.older)
	older.ask("hold", "approval")
	older.ask("release", "approval")
	older.ask("close")
	time.Sleep(stillFor)
	newer.ask("release", "approval-2")
	newer.ask("close")
	require.Len(p, p.events(event.Release), 2)
	for _, program := range []string{p.older, p.newer} {
		late := p.attached(program)
		require.Greater(p, late.length("paused"), stillFor)
		late.ask("close")
	}
}

func beside(p pair) {
	older := p.attached(p.older)
	older.ask("hold", "approval")
	newer := p.attached(p.newer)
	newer.ask("hold", "approval")
	newer.ask("release", "approval")
	time.Sleep(stillFor)
	require.Greater(p, newer.length("paused"), stillFor)
	older.ask("release", "approval")
	older.ask("close")
	newer.ask("sync")
	paused := newer.length("paused")
	time.Sleep(stillFor)
	require.Less(p, newer.length("paused"), paused+brief)
	require.Len(p, p.events(event.Release), 2)
}

func killedOlder(p pair) {
	older := p.attached(p.older)
	older.ask("hold", "approval")
	require.Eventually(p, func() bool { return len(p.events(event.Hold)) == 1 }, time.Minute, time.Millisecond)
	older.kill()
	newer := p.attached(p.newer)
	newer.ask("hold", "approval")
	newer.ask("release", "approval")
	time.Sleep(stillFor)
	require.Greater(p, newer.length("paused"), stillFor, "until its cap")
}

func killedNewer(p pair) {
	newer := p.attached(p.newer)
	newer.ask("hold", "approval")
	require.Eventually(p, func() bool { return len(p.events(event.Hold)) == 1 }, time.Minute, time.Millisecond)
	newer.kill()
	older := p.attached(p.older)
	older.ask("hold", "approval")
	older.ask("release", "approval")
	older.ask("close")
	require.Len(p, p.events(event.Hold), 1)
	require.Len(p, p.events(event.Release), 1)
	late := p.attached(p.newer)
	paused := late.length("paused")
	time.Sleep(stillFor)
	require.Less(p, late.length("paused"), paused+brief, "it goes on")
}

func takenBefore(p pair) {
	killed := p.attached(p.newer)
	killed.ask("hold", "approval")
	require.Eventually(p, func() bool { return len(p.events(event.Hold)) == 1 }, time.Minute, time.Millisecond)
	killed.kill()
	newer := p.attached(p.newer)
	newer.ask("hold", "approval")
	time.Sleep(stillFor)
	newer.ask("release", "approval")
	newer.ask("close")
	holds, releases := p.events(event.Hold), p.events(event.Release)
	require.Len(p, holds, 2)
	require.Len(p, releases, 2)
	require.True(p, slices.ContainsFunc(releases, func(r holdEvent) bool { return r.TakenBy == holds[1].id }))
	require.NotEmpty(p, holds[0].Opener)
	all := map[string]time.Duration{}
	for name, program := range map[string]string{"older": p.older, "newer": p.newer} {
		s := p.attached(program)
		all[name] = s.length("paused")
		s.ask("close")
	}
	require.InDelta(p, all["newer"], all["older"], float64(brief))
	require.Greater(p, all["older"], stillFor)
}
