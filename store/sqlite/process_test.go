package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// childVariable makes the test binary the other process of these tests. Its value is the job and its arguments.
const childVariable = "WATCHDOG_SQLITE_CHILD"

// childJobs get the file of the database and the argument of the job.
var childJobs = map[string]func(file, argument string) error{
	"append until killed": appendUntilKilled,
	"race":                raceForIDs,
	"open and append":     openAndAppend,
	"read only":           func(file, _ string) error { return readOnly(file) },
}

// runChild does a job and returns the exit code.
func runChild(job string) int {
	arguments := append(strings.Split(job, "\n"), "")
	do := childJobs[arguments[0]]
	if do == nil {
		fmt.Printf("error: no such job: %q\n", job)
		return 1
	}
	if err := do(arguments[1], arguments[2]); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// appendUntilKilled appends from four goroutines and prints the ID of each append that returned.
func appendUntilKilled(file, round string) error {
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for writer := range 4 {
		go func() {
			for n := range int64(1 << 40) {
				e := numbered(n)
				e.ID = fmt.Sprintf("%s-%d-%d", round, writer, n)
				if err := s.Append(context.Background(), e); err != nil {
					failed <- err
				}
				fmt.Println(e.ID)
			}
		}()
	}
	return <-failed
}

const contested = 40

// raceForIDs appends events with the same IDs as other processes, and prints whose event it then reads.
func raceForIDs(file, name string) error {
	return whenStarted(file, func(s *sqlite.Store) error {
		for n := range int64(contested) {
			e := numbered(n)
			e.AggregateID, e.Payload = e.ID, fmt.Appendf(nil, `{"by":%q}`, name)
			if err := s.Append(context.Background(), e); err != nil {
				return err
			}
			stored, err := s.Read(context.Background(), e.AggregateType, e.AggregateID)
			if err != nil {
				return err
			}
			fmt.Println(len(stored), stored[0].ID, string(stored[0].Payload))
		}
		return nil
	})
}

func openAndAppend(file, name string) error {
	n, _ := strconv.ParseInt(name, 10, 64)
	return whenStarted(file, func(s *sqlite.Store) error { return s.Append(context.Background(), numbered(n)) })
}

// readOnly opens a file read-only, reads and tries to write.
func readOnly(file string) error {
	s, err := sqlite.OpenReadOnly(context.Background(), file)
	if err != nil {
		return err
	}
	events, err := s.Read(context.Background(), watchdog.AggregateType, "run-1")
	if err != nil {
		return err
	}
	sessions, err := s.List(context.Background(), session.ListQuery{Limit: 10})
	if err != nil {
		return err
	}
	if err := s.Append(context.Background(), numbered(2)); !errors.Is(err, sqlite.ErrReadOnly) {
		return fmt.Errorf("append: %w", err)
	}
	fmt.Println("read", len(events), "events and", len(sessions.Sessions), "sessions")
	return s.Close()
}

// whenStarted opens a store when the parent closes the pipe that is the input of all children, and closes it.
func whenStarted(file string, do func(s *sqlite.Store) error) error {
	_, _ = io.Copy(io.Discard, os.Stdin)
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

func child(t *testing.T, job ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(job, "\n"))
	return cmd
}

// together runs children that start their work at the same time, and returns their outputs.
func together(t *testing.T, children []*exec.Cmd) []string {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	var all sync.WaitGroup
	outputs := make([]string, len(children))
	for i, cmd := range children {
		cmd.Stdin = read
		all.Go(func() {
			output, err := cmd.CombinedOutput()
			outputs[i] = string(output)
			assert.NoError(t, err, outputs[i])
		})
	}
	write.Close()
	all.Wait()
	read.Close()
	return outputs
}

// Every append that returned nil is stored after SIGKILL.
func TestKill(t *testing.T) {
	t.Parallel()
	const rounds = 20
	file := newFile(t)
	var acknowledged []string
	for round := range rounds {
		acknowledged = append(acknowledged, appendAndKill(t, file, round)...)
		stored := ids(read(t, openAt(t, file)))
		slices.Sort(stored)
		for _, id := range acknowledged {
			if _, found := slices.BinarySearch(stored, id); !found {
				t.Fatalf("round %d: Append of %s returned nil, but after the kill it is not among %d events",
					round, id, len(stored))
			}
		}
	}
	require.Equal(t, []string{"ok"}, queryAll(t, openPlain(t, file), "PRAGMA integrity_check"))
	t.Logf("%d acknowledged appends in %d rounds", len(acknowledged), rounds)
}

// appendAndKill kills a child after a random number of appends, and returns the IDs that the child printed.
func appendAndKill(t *testing.T, file string, round int) (acknowledged []string) {
	t.Helper()
	cmd := child(t, "append until killed", file, strconv.Itoa(round))
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	last := 1 + rand.IntN(60)
	lines := bufio.NewReader(output)
	for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
		if strings.HasPrefix(line, "error:") {
			t.Error(line)
		}
		if acknowledged = append(acknowledged, strings.TrimSpace(line)); len(acknowledged) == last {
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || len(acknowledged) < last {
		t.Fatalf("the child ended by itself after %d appends: %v", len(acknowledged), err)
	}
	return acknowledged
}

// Processes that append the same IDs keep one event of each, and all read the same one.
func TestProcessesShareIDs(t *testing.T) {
	const processes = 4
	file := newFile(t)
	var children []*exec.Cmd
	for n := range processes {
		children = append(children, child(t, "race", file, strconv.Itoa(n)))
	}
	outputs := together(t, children)
	for _, output := range outputs {
		require.Equal(t, outputs[0], output)
		require.Equal(t, contested-1, strings.Count(output, "\n1 event-"))
	}
	db := openPlain(t, file)
	got := queryAll(t, db, "SELECT count(*), count(DISTINCT id) FROM events")
	require.Equal(t, []string{"40", "40"}, got)
	winners := queryAll(t, db, "SELECT DISTINCT json_extract(payload, '$.by') FROM events")
	t.Logf("%d of %d processes won an ID", len(winners), processes)
}

// Several processes may create one database at once.
func TestProcessesOpenAtOnce(t *testing.T) {
	const processes, rounds = 6, 3
	for round := range rounds {
		file := newFile(t)
		if round == 1 {
			mustExec(t, openPlain(t, file), tableWith("tenant TEXT"))
		}
		var children []*exec.Cmd
		for n := range processes {
			children = append(children, child(t, "open and append", file, strconv.Itoa(n)))
		}
		together(t, children)
		require.Len(t, read(t, openAt(t, file)), processes)
		db := openPlain(t, file)
		require.Equal(t, []string{"8"}, queryAll(t, db, "SELECT version FROM watchdog_schema"))
		require.Equal(t, ownIndexes, indexes(t, db))
	}
}

var _ watchdog.EventStore = (*sqlite.Store)(nil)

// TestImpatientCallers protects, under the race detector, that what a call returns whose context ends while it is being
// written is not written any more, as the named result of a function was to which the write belonged.
func TestImpatientCallers(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	require.NoError(t, s.BeginLease(t.Context(), session.Lease{ID: "lease", Promise: time.Minute}))
	_, attached, err := s.Attach(t.Context(), session.Session{RunID: "run-0"})
	require.NoError(t, err)
	for name, call := range map[string]func(ctx context.Context, n int) (answer any, err error){
		"attach": func(ctx context.Context, n int) (any, error) {
			_, after, err := s.Attach(ctx, session.Session{RunID: fmt.Sprint("run-", n)})
			return after, err
		},
		"claim": func(ctx context.Context, _ int) (any, error) {
			return s.Claim(ctx, attached, session.ClaimRequest{By: "sweeper"})
		},
		"expire a lease": func(ctx context.Context, n int) (any, error) {
			expired, _, err := s.ExpireLease(ctx, session.Lease{ID: fmt.Sprint("lease-", n)})
			return expired, err
		},
		"observe leases": func(ctx context.Context, _ int) (any, error) {
			return s.ObserveLeases(ctx, []string{"lease"})
		},
		"the ends of a lease": func(ctx context.Context, _ int) (any, error) {
			return s.Ended(ctx, "lease", []session.AttemptID{{RunID: "run-0", Attempt: 1}})
		},
		"freshen": func(ctx context.Context, _ int) (any, error) {
			skipped, err := s.Freshen(ctx, "lease", []session.Freshness{{RunID: "run-0", Attempt: 1}})
			return skipped.Gone, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(int(2*time.Millisecond))))
				answer, err := call(ctx, n)
				cancel()
				if err != nil {
					require.Empty(t, answer)
				}
			}
		})
	}
}
