package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

const (
	spenders    = 64   // goroutines of a process
	spendDepth  = 27   // layers around each call
	sharedLimit = 4000 // requests of the scope; each run may use three quarters of them
)

// spend makes calls from many goroutines, deep inside a run, until the scope or the run is used up. It prints what was
// admitted when that is so, and what is settled before it is.
func spend(file, name string) error {
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	defer s.Close()
	scope, run, _ := strings.Cut(name, " ")
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: run, StartedAt: spendDay}, watchdog.Config{
		Store: s, Logger: slog.New(slog.DiscardHandler),
		RecordTimeout: time.Minute, // a busy machine is no outage
		Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, Spend: watchdog.Spend{Requests: sharedLimit * 3 / 4, WarnAt: []float64{}},
		},
		Scopes: []watchdog.SharedSpend{{Scope: scope, Spend: watchdog.Spend{Requests: sharedLimit, WarnAt: []float64{}}}},
	})
	if err != nil {
		return err
	}
	inner := wd
	for range spendDepth {
		if inner, err = inner.Layer("l", watchdog.Budget{Spend: watchdog.Spend{Requests: sharedLimit}}); err != nil {
			break // the run had ended before the process was killed
		}
	}
	if err == nil {
		spendTogether(inner)
	}
	return wd.Close()
}

var spendDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func spendTogether(wd *watchdog.Watchdog) {
	var said sync.Mutex
	say := func(format string, args ...any) {
		said.Lock()
		defer said.Unlock()
		fmt.Fprintf(os.Stdout, format+"\n", args...)
	}
	var calls atomic.Int64
	var all sync.WaitGroup
	for range spenders {
		all.Go(func() {
			for {
				most, id := 1+rand.Int64N(20), calls.Add(1)
				c, err := wd.Admit(context.Background(), "", watchdog.Amount{Requests: most})
				if err != nil {
					if refused := (*watchdog.Refused)(nil); !errors.As(err, &refused) && !errors.Is(err, watchdog.ErrEnded) {
						say("error: %v", err)
					}
					return
				}
				say("%d %d", id, most)
				if rand.IntN(8) == 0 {
					continue // it is never settled
				}
				used := rand.Int64N(most + 1)
				say("%d %d", id, used)
				_ = c.Settle(watchdog.Amount{Requests: used})
			}
		})
	}
	all.Wait()
}

// A spender is a process that spends, and what it said.
type spender struct {
	run    string
	killed bool
	sum    int64
}

// spendIn has a process spend, and kills it when it has said so many lines, if any.
func spendIn(t *testing.T, file, scope, run string, killAfter int) *spender {
	cmd := child(t, "spend", file, scope+" "+run)
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return &spender{}
	}
	calls := said(t, output, killAfter, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	one := &spender{run: run, killed: err != nil && killAfter > 0}
	if err != nil && !one.killed {
		t.Errorf("%s: %v", run, err)
	}
	for _, n := range calls {
		one.sum += n
	}
	return one
}

// said is what a process says of each call in the end. It is killed after so many lines, if any: what follows may be
// cut off.
func said(t *testing.T, output io.Reader, killAfter int, kill func()) (calls map[string]int64) {
	calls = map[string]int64{}
	lines := 0
	for scanner := bufio.NewScanner(output); scanner.Scan(); lines++ {
		over := killAfter > 0 && lines >= killAfter
		id, count, ok := strings.Cut(scanner.Text(), " ")
		n, err := strconv.ParseInt(count, 10, 64)
		switch {
		case ok && err == nil:
			calls[id] = n
		case !over:
			t.Errorf("it says %q", scanner.Text())
		}
		if over {
			kill()
		}
	}
	return calls
}

// TestSpendOfKilledProcesses has two processes spend on one scope, deep inside runs of their own, and kills them at
// random; one that was killed begins again. Nothing goes above a limit, nothing that was admitted is forgotten, and
// nothing that was settled is charged twice. WATCHDOG_LONG=1 gives 200 rounds.
func TestSpendOfKilledProcesses(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	for round := range racing.Rounds(10, 200) {
		scope := fmt.Sprint("scope-", round)
		var all sync.WaitGroup
		spent := make([][]*spender, 2)
		for i := range spent {
			kill := 0
			if rand.IntN(2) == 0 {
				kill = 1 + rand.IntN(400)
			}
			all.Go(func() {
				run := fmt.Sprintf("run-%d-%d", round, i)
				spent[i] = append(spent[i], spendIn(t, file, scope, run, kill))
				if spent[i][0].killed {
					spent[i] = append(spent[i], spendIn(t, file, scope, run, 0))
				}
			})
		}
		all.Wait()
		checkSpent(t, s, scope, spent)
		if t.Failed() {
			return
		}
	}
}

func checkSpent(t *testing.T, s *sqlite.Store, scope string, spent [][]*spender) {
	t.Helper()
	sum, killed := int64(0), false
	for _, lives := range spent {
		run := int64(0)
		for _, one := range lives {
			run += one.sum
			killed = killed || one.killed
		}
		require.LessOrEqual(t, run, int64(sharedLimit*3/4), "of the run's own limit, in all its lives")
		sum += run
	}
	g, err := s.Take(t.Context(), watchdog.Slice{ID: "look at " + scope, Scope: scope})
	require.NoError(t, err)
	require.LessOrEqual(t, g.Charged.Requests, int64(sharedLimit))
	if require.GreaterOrEqual(t, g.Charged.Requests, sum, "what was admitted is charged"); !killed {
		require.Equal(t, sum, g.Charged.Requests, "and nothing else")
	}
}
