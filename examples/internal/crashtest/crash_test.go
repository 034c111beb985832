package crashtest_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kills is how often a child is killed, by all lanes together.
const kills = 300

// lanes is how many runs are tested at once, each with a database of its own.
const lanes = 2

func TestCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range lanes {
		t.Run(fmt.Sprintf("a run killed at random moments around its budget has one cancel per window, lane %d", i+1), func(t *testing.T) {
			t.Parallel()
			l := newLane(t, rand.New(rand.NewPCG(seed, uint64(i))))
			for l.killed < kills/lanes {
				l.round()
			}
			l.finish()
		})
	}
}

// A lane is one run that is killed, restarted, stopped and resumed, again and again, and what its host knows of it.
type lane struct {
	t        *testing.T
	random   *rand.Rand
	database string
	job      job
	first    string // the start of the first window, as events write it
	last     *history
	blocked  bool // the child said that the window is over
	killed   int
	silent   map[string]bool // the windows whose cancel was found before a child had lived to report it
}

func newLane(t *testing.T, random *rand.Rand) *lane {
	l := &lane{t: t, random: random, database: filepath.Join(t.TempDir(), "events.db"), silent: map[string]bool{}}
	l.job = job{ID: "run", StartedAt: time.Now().UTC().Truncate(time.Microsecond), Budget: 40 * time.Millisecond}
	l.first = written(l.job.StartedAt)
	return l
}

// round starts a child on the run and lets it run into a bomb, which may go off too late.
func (l *lane) round() {
	l.prepare()
	p := start(l.t, l.database)
	l.explode(p)
	if l.oneIn(2) { // otherwise the next child is the one that recovers the database
		l.check()
	}
}

// prepare decides how the run is taken up: it is resumed once it is known to be over, attached otherwise. A user may also ask for a
// resume when that is not known.
func (l *lane) prepare() {
	l.job.Resume = l.blocked || l.oneIn(8)
	l.job.PollOnly = l.oneIn(4)
	if l.blocked {
		l.job.Budget = l.between(20*time.Millisecond, 60*time.Millisecond)
		l.blocked = false
	}
}

// explode follows the child to its end and kills it at a moment that is drawn before: while it opens the database, while it attaches, or
// around the end of its budget.
func (l *lane) explode(p *process) {
	stage := l.random.IntN(4)
	bomb := &bomb{p: p}
	defer bomb.disarm()
	if stage == 0 {
		bomb.arm(l.between(0, 40*time.Millisecond))
	}
	if _, ok := p.next(); ok && stage == 1 {
		bomb.arm(l.between(0, 5*time.Millisecond))
	}
	p.jobs.Encode(l.job) // fails if the child is dead, which is seen below
	p.input.Close()
	attached, ok := p.next()
	if ok {
		l.attached(attached)
	}
	if ok && stage >= 2 {
		end := attached.AttachedTo.Add(l.job.Budget)
		bomb.arm(max(time.Until(end), 0) + l.between(-2*time.Millisecond, 6*time.Millisecond))
	}
	ended, ok := p.next()
	if ok {
		l.over(ended)
	}
	if p.wait() {
		l.killed++
	}
}

// attached is the host that persists the start of its window, unless it crashes before.
func (l *lane) attached(said line) {
	if l.oneIn(2) {
		l.job.StartedAt = said.AttachedTo
	}
}

// over takes the child at its word: what it says after that is durable.
func (l *lane) over(said line) {
	require.NotNil(l.t, said.Stop)
	require.GreaterOrEqual(l.t, said.Stop.FiredAt.Sub(said.Stop.StartedAt), said.Stop.Budget)
	l.blocked = true
	l.check()
	payload := l.last.stops[written(said.Stop.StartedAt)]
	require.Contains(l.t, payload, written(said.Stop.FiredAt), "the stop that the child reports is the stored one")
}

func (l *lane) check() {
	now := readHistory(l.t, l.database, l.job.ID)
	now.continues(l.t, l.last)
	if window := now.check(l.t, l.first, l.blocked); now.cancels[window] > 0 && !l.blocked {
		l.silent[window] = true
	}
	l.last = now
}

// finish lets the run come to its end in peace.
func (l *lane) finish() {
	l.job.Resume = false
	p := start(l.t, l.database)
	p.must()
	require.NoError(l.t, p.jobs.Encode(l.job))
	require.NoError(l.t, p.input.Close())
	p.must()
	l.over(p.must())
	require.False(l.t, p.wait())
	l.t.Logf("killed %d times; %d windows, each with its one cancel, of which at least %d were killed between that and their report",
		l.killed, len(l.last.cancels), len(l.silent))
}

func (l *lane) oneIn(n int) bool { return l.random.IntN(n) == 0 }

func (l *lane) between(least, most time.Duration) time.Duration {
	return least + time.Duration(l.random.Int64N(int64(most-least)))
}

// A bomb kills a child, once, if it gets to it.
type bomb struct {
	p     *process
	timer *time.Timer
}

func (b *bomb) arm(after time.Duration) {
	b.timer = time.AfterFunc(after, func() { b.p.cmd.Process.Kill() })
}

func (b *bomb) disarm() {
	if b.timer != nil {
		b.timer.Stop()
	}
}
