package crashtest_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// kills is how many children are killed, in all loops together.
var kills = racing.Rounds(60, 300)

// parallelRuns is how many runs are tested in parallel, each with its own database.
const parallelRuns = 3

func TestCrash(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range parallelRuns {
		const rule = "a run killed at random moments around its budget has one cancel per window, loop %d"
		t.Run(fmt.Sprintf(rule, i+1), func(t *testing.T) {
			t.Parallel()
			l := newCrashLoop(t, rand.New(rand.NewPCG(seed, uint64(i))))
			for l.killed < kills/parallelRuns {
				l.round()
			}
			l.finish()
		})
	}
}

// A crashLoop kills, restarts, stops and resumes one run again and again. It records what the run's host would know.
type crashLoop struct {
	t        *testing.T
	random   *rand.Rand
	database string
	job      job
	first    string // the start of the first window, as events write it
	last     *history
	blocked  bool // the child reported the end of the window
	killed   int
}

func newCrashLoop(t *testing.T, random *rand.Rand) *crashLoop {
	l := &crashLoop{t: t, random: random, database: filepath.Join(t.TempDir(), "events.db")}
	l.job = job{ID: "run", StartedAt: time.Now().UTC().Truncate(time.Microsecond), Budget: 40 * time.Millisecond}
	l.first = written(l.job.StartedAt)
	return l
}

// round starts a child on the run and kills it at a random moment, unless it finishes first.
func (l *crashLoop) round() {
	l.prepare()
	p := start(l.t, l.database)
	l.runAndKill(p)
	if l.oneIn(2) { // otherwise the next child recovers the database
		l.check()
	}
}

// prepare chooses between attach and resume: it resumes a run that is over, and sometimes one that may not be, as a
// user can.
func (l *crashLoop) prepare() {
	l.job.Resume = l.blocked || l.oneIn(8)
	l.job.PollOnly = l.oneIn(4)
	if l.blocked {
		l.job.Budget = l.between(20*time.Millisecond, 60*time.Millisecond)
		l.blocked = false
	}
}

// runAndKill follows the child to its end and kills it at a random moment: while it opens the database, while it
// attaches, or around the end of its budget.
func (l *crashLoop) runAndKill(p *process) {
	stage := l.random.IntN(4)
	kill := time.AfterFunc(time.Hour, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	if stage == 0 {
		kill.Reset(l.between(0, 40*time.Millisecond))
	}
	if _, ok := p.next(); ok && stage == 1 {
		kill.Reset(l.between(0, 5*time.Millisecond))
	}
	p.jobs.Encode(l.job) // it fails if the child is dead: next returns false then
	p.input.Close()
	attached, ok := p.next()
	if ok {
		l.attached(attached)
	}
	if ok && stage >= 2 {
		end := attached.AttachedTo.Add(l.job.Budget)
		kill.Reset(max(time.Until(end), 0) + l.between(-2*time.Millisecond, 6*time.Millisecond))
	}
	ended, ok := p.next()
	if ok {
		l.reportedEnd(ended)
	}
	if p.wait() {
		l.killed++
	}
}

// attached saves the window's start in half of the cases; in the others the host crashed before it could.
func (l *crashLoop) attached(said line) {
	if l.oneIn(2) {
		l.job.StartedAt = said.AttachedTo
	}
}

// reportedEnd checks the stop that the child reported: it must be in the database.
func (l *crashLoop) reportedEnd(said line) {
	require.NotNil(l.t, said.Stop)
	require.GreaterOrEqual(l.t, said.Stop.FiredAt.Sub(said.Stop.StartedAt), said.Stop.Budget)
	l.blocked = true
	l.check()
	payload := l.last.stops[written(said.Stop.StartedAt)]
	require.Contains(l.t, payload, written(said.Stop.FiredAt), "the stop that the child reports is the stored one")
}

func (l *crashLoop) check() {
	now := readHistory(l.t, l.database, l.job.ID)
	now.continues(l.t, l.last)
	now.check(l.t, l.first, l.blocked)
	l.last = now
}

// finish lets the run end without a kill.
func (l *crashLoop) finish() {
	l.job.Resume = false
	p := start(l.t, l.database)
	p.must()
	require.NoError(l.t, p.jobs.Encode(l.job))
	require.NoError(l.t, p.input.Close())
	p.must()
	l.reportedEnd(p.must())
	require.False(l.t, p.wait())
	l.t.Logf("killed %d times; %d windows with one cancel each", l.killed, len(l.last.ends))
}

func (l *crashLoop) oneIn(n int) bool { return l.random.IntN(n) == 0 }

func (l *crashLoop) between(least, most time.Duration) time.Duration {
	return least + time.Duration(l.random.Int64N(int64(most-least)))
}
