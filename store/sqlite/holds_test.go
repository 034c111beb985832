package sqlite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

var (
	heldRun  = watchdog.Run{ID: "held", StartedAt: time.Now().Add(-time.Minute)}
	approval = watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}
)

// attachHeld attaches to the run.
func attachHeld(s *sqlite.Store, start time.Time) (*watchdog.Watchdog, error) {
	return watchdog.New(context.Background(), watchdog.Run{ID: heldRun.ID, StartedAt: start}, watchdog.Config{
		Store: s, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{WallClock: time.Hour},
	})
}

// holdUntilKilled opens and closes holds with one key, and prints when it closes one: a while after its opening, by the
// run's time. Now and then it leaves one open, and attaches again.
func holdUntilKilled(file, start string) error {
	began, err := time.Parse(time.RFC3339Nano, start)
	if err != nil {
		return err
	}
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	for {
		w, err := attachHeld(s, began)
		if err != nil {
			return err
		}
		fmt.Println("attached")
		for range 1 + rand.IntN(5) {
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
			h, err := w.Hold(context.Background(), "approval", approval)
			if err != nil {
				return err
			}
			opened := w.Elapsed()
			time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
			if rand.IntN(4) == 0 {
				break
			}
			closed := w.Elapsed()
			if h.Close(); rand.IntN(3) == 0 {
				if _, err := w.Sync(context.Background()); err != nil {
					return err
				}
			}
			fmt.Println("held", opened.Microseconds(), closed.Microseconds())
		}
		if err := w.Close(); err != nil { // which stores what is left
			return err
		}
		fmt.Println("stored")
	}
}

// A holder is a process that holds until it is killed.
type holder struct {
	cmd   *exec.Cmd
	pid   int
	lines *bufio.Scanner
	held  [][2]time.Duration // that it said it has stored
	some  [][2]time.Duration // that it said since
}

func newHolder(t *testing.T, file string) *holder {
	t.Helper()
	h := &holder{cmd: child(t, "hold until killed", file, heldRun.StartedAt.Format(time.RFC3339Nano))}
	h.cmd.Stderr = os.Stderr
	output, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, h.cmd.Start())
	h.pid, h.lines = h.cmd.Process.Pid, bufio.NewScanner(output)
	return h
}

// live reads so many lines.
func (h *holder) live(t *testing.T, lines int) {
	t.Helper()
	for range lines {
		if !h.lines.Scan() {
			t.Fatalf("process %d ended by itself", h.pid)
		}
		h.read(t)
	}
}

func (h *holder) read(t *testing.T) {
	t.Helper()
	fields := strings.Fields(h.lines.Text())
	switch fields[0] {
	case "attached":
	case "stored":
		h.held, h.some = append(h.held, h.some...), nil
	case "held":
		var held [2]time.Duration
		for i := range held {
			n, err := strconv.Atoi(fields[1+i])
			require.NoError(t, err)
			held[i] = time.Duration(n) * time.Microsecond
		}
		h.some = append(h.some, held)
	default:
		t.Fatal(h.lines.Text())
	}
}

// kill kills it, and reads what it said until then.
func (h *holder) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, h.cmd.Process.Kill())
	for h.lines.Scan() {
		h.read(t)
	}
	require.Error(t, h.cmd.Wait())
}

// A heldEvent is what the event of a hold or a release says.
type heldEvent struct {
	Opened   float64 `json:"opened_seconds"`
	Released float64 `json:"released_seconds"`
	Opening  string  `json:"opening"`
	TakenBy  string  `json:"taken_by"`
	Opener   struct {
		PID    int    `json:"pid"`
		Attach string `json:"attach"`
	} `json:"opener"`

	at time.Time
	to float64 // when a hold was released, by its opener or else by who took it over
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}

// heldEvents are the holds of the run by their IDs, and the releases of which another process took them over.
func heldEvents(t *testing.T, s *sqlite.Store) (holds map[string]*heldEvent, taken []*heldEvent) {
	t.Helper()
	holds = map[string]*heldEvent{}
	own := map[string]*heldEvent{}
	all, err := s.Read(t.Context(), event.AggregateType, heldRun.ID)
	require.NoError(t, err)
	for _, e := range all {
		p := &heldEvent{at: e.Timestamp}
		require.NoError(t, json.Unmarshal(e.Payload, p))
		switch {
		case e.Type == event.Hold:
			holds[e.ID] = p
		case e.Type != event.Release:
		case p.TakenBy != "":
			taken = append(taken, p)
		default:
			require.NotContains(t, own, p.Opening)
			own[p.Opening] = p
		}
	}
	for _, r := range taken {
		if h := holds[r.Opening]; h.to == 0 || r.Released < h.to {
			h.to = r.Released
		}
	}
	for _, r := range own {
		holds[r.Opening].to = r.Released
	}
	requireTakenFromGone(t, holds, own, taken)
	return holds, taken
}

// requireTakenFromGone checks that each hold was closed, and none was taken over from an attach that lived: one that
// wrote something later.
func requireTakenFromGone(t *testing.T, holds, own map[string]*heldEvent, taken []*heldEvent) {
	t.Helper()
	lived := map[string]time.Time{} // until when attaches surely did
	for id, h := range holds {
		require.NotZero(t, h.to, "%s is left open", id)
		for _, e := range []*heldEvent{h, own[id]} {
			if e != nil && e.at.After(lived[h.Opener.Attach]) {
				lived[h.Opener.Attach] = e.at
			}
		}
	}
	for _, r := range taken {
		require.False(t, r.at.Before(lived[holds[r.Opening].Opener.Attach]), "%s was taken over from one that lived", r.Opening)
		require.Contains(t, holds, r.TakenBy)
	}
}

// TestHoldsOfProcesses has three processes hold one run with one key, and kills one after the other. What a process
// held is paused, nobody takes over what another one that lives has open, and nothing is left open.
func TestHoldsOfProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nobody knows which processes are gone here")
	}
	t.Parallel()
	rounds := testrun.Rounds(20, 600)
	file := newFile(t)
	s := openAt(t, file)
	var all []*holder
	for range 3 {
		all = append(all, newHolder(t, file))
	}
	held := map[int][][2]time.Duration{}
	for round := range rounds + len(all) {
		i := rand.IntN(len(all))
		for _, h := range all {
			h.live(t, 1+rand.IntN(6))
		}
		all[i].kill(t)
		held[all[i].pid] = all[i].held
		if round < rounds {
			all[i] = newHolder(t, file)
		} else {
			all = slices.Delete(all, i, i+1)
		}
	}
	w, err := attachHeld(s, heldRun.StartedAt)
	require.NoError(t, err)
	h, err := w.Hold(context.Background(), "approval", approval) // takes over what the last ones left
	require.NoError(t, err)
	require.True(t, h.Close())
	require.NoError(t, w.Close())

	holds, taken := heldEvents(t, s)
	n := 0
	for pid, some := range held {
		for _, one := range some {
			n++
			require.True(t, paused(holds, pid, one), "process %d held from %v to %v, which is not paused", pid, one[0], one[1])
		}
	}
	t.Logf("%d kills, %d holds, %d of which were said to be stored, %d taken over", rounds, len(holds), n, len(taken))
	require.Positive(t, n)
	require.NotEmpty(t, taken)
}

// paused reports whether the wall clock stood still for a hold of a process.
func paused(holds map[string]*heldEvent, pid int, held [2]time.Duration) bool {
	for _, h := range holds {
		if h.Opener.PID == pid && seconds(h.Opened) <= held[0] && held[1] <= seconds(h.to)+time.Microsecond {
			return true
		}
	}
	return false
}
