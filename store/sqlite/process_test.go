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
	waitForStart()
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
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
	return s.Close()
}

func openAndAppend(file, name string) error {
	waitForStart()
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	n, _ := strconv.ParseInt(name, 10, 64)
	if err := s.Append(context.Background(), numbered(n)); err != nil {
		return err
	}
	return s.Close()
}

// readOnly opens a file read-only, reads all and tries to write.
func readOnly(file string) error {
	s, err := sqlite.OpenReadOnly(context.Background(), file)
	if err != nil {
		return err
	}
	events, sessions, err := readAll(context.Background(), s)
	if err != nil {
		return err
	}
	if err := s.Append(context.Background(), numbered(2)); !errors.Is(err, sqlite.ErrReadOnly) {
		return fmt.Errorf("append: %w", err)
	}
	fmt.Println("read", events, "events and", sessions, "sessions")
	return s.Close()
}

// waitForStart returns when the parent closes the pipe that is the input of all children.
func waitForStart() { _, _ = io.Copy(io.Discard, os.Stdin) }

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
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	outputs := make([]string, len(children))
	for i, cmd := range children {
		cmd.Stdin = read
		all.Go(func() {
			output, err := cmd.CombinedOutput()
			if outputs[i] = string(output); err != nil {
				t.Errorf("child %d: %v: %s", i, err, output)
			}
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
	if got := queryAll(t, openPlain(t, file), "PRAGMA integrity_check"); !slices.Equal(got, []string{"ok"}) {
		t.Errorf("the database after %d kills: %q", rounds, got)
	}
	t.Logf("%d acknowledged appends in %d rounds", len(acknowledged), rounds)
}

// appendAndKill kills a child after a random number of appends, and returns the IDs that the child printed.
func appendAndKill(t *testing.T, file string, round int) (acknowledged []string) {
	t.Helper()
	cmd := child(t, "append until killed", file, strconv.Itoa(round))
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	for i, output := range outputs {
		if lines := strings.Count(output, "\n1 event-"); output != outputs[0] || lines != contested-1 {
			t.Errorf("process %d read\n%s\nand process 0\n%s", i, output, outputs[0])
		}
	}
	db := openPlain(t, file)
	got := queryAll(t, db, "SELECT count(*), count(DISTINCT id) FROM events")
	if !slices.Equal(got, []string{"40", "40"}) {
		t.Errorf("rows and IDs: %q", got)
	}
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
		if events := read(t, openAt(t, file)); len(events) != processes {
			t.Errorf("stored are %q, want one event of each of %d processes", ids(events), processes)
		}
		db := openPlain(t, file)
		if got := queryAll(t, db, "SELECT version FROM watchdog_schema"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("the versions are %q", got)
		}
		if got := indexes(t, db); !slices.Equal(got, ownIndexes) {
			t.Errorf("the indexes are %q", got)
		}
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
