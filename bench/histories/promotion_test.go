//go:build linux

package histories_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// What was called before the promotion is called after it, too: the slots come again.
const (
	promotionSlots = 5
	promotionRound = promotionSlots * callsOfSlot
)

// newPair starts a server with a standby. The address leads to whichever accepts writes.
func newPair(t *testing.T, synchronous bool) (address string, primary *pgtest.Server, standby *pgtest.Standby) {
	t.Helper()
	primary = pgtest.Start(t, pgtest.Options{})
	standby = pgtest.StartStandby(t, primary, pgtest.StandbyOptions{Synchronous: synchronous})
	address = pgtest.DSN(primary.Database(t), time.Second, primary, standby.Server)
	s, err := postgres.Open(t.Context(), address, postgres.Config{Logger: quiet})
	require.NoError(t, err)
	s.Close()
	return address, primary, standby
}

// TestPromotion has the primary crash and its synchronous standby promoted, while processes are killed and stopped. It
// is judged by the same models: nothing is lost that was answered.
//
// There is one exception, which is PostgreSQL's: when the main process of a server is killed, its others live for some
// milliseconds. A commit that waits for the standby gives up waiting, without an answer, and the others can read what
// it wrote, which the standby may not have. So what only read is no answer if it came after the kill.
func TestPromotion(t *testing.T) {
	racing.LongOnly(t)
	t.Parallel()
	for range 10 {
		t.Run("loses nothing", promote)
	}
}

func promote(t *testing.T) {
	address, primary, standby := newPair(t, true)
	c := start(t, database{address: address}, 3*promotionRound, promotionSlots)
	var killed porcupine.Operation
	c.database.disturb = func(*rand.Rand, func() bool) (_ int, err error) {
		if err := c.untilCalls(promotionRound + callsOfSlot/2); err != nil {
			return 0, err
		}
		killed = during(promotion, func() {
			primary.Kill()
			err = standby.Promote(t.Context())
		})
		return 1, err
	}
	c.disturb()
	journals := c.journals()
	ofRuns, ofScopes := sessions.histories(t, journals), spends.histories(t, journals)
	t.Logf("%d histories are not linearizable with what was read from a server that was killed",
		len(sessions.check(t, ofRuns))+len(spends.check(t, ofScopes)))
	judge(t, sessions, withoutReads(ofRuns, killed, outcomeOfSession), outcomeOfSession, "attach", "read", "freshen",
		"end", "warn done", "claim done", "cancel done", "expire lease expired")
	judge(t, spends, withoutReads(ofScopes, killed, outcomeOfSpend), outcomeOfSpend, "granted", "returned")
}

// written are the outcomes of which a server wrote something, or locked it: its answer waited for the standby.
var written = []string{
	"attach", "freshen", "end", "warn done", "claim done", "claim end_stored", "cancel done", "cancel end_stored",
	"cancel all done", "cancel all end_stored", "complete finished", "begin lease", "renew lease", "granted",
}

// withoutReads returns the histories without the answers that came during an event, but for those of writes.
func withoutReads(all []history, during porcupine.Operation, outcome func(in, out any) string) (sure []history) {
	for _, h := range all {
		h.calls = slices.Clone(h.calls)
		for i, c := range h.calls {
			if c.Return >= during.Call && c.Return <= during.Return && !slices.Contains(written, outcome(c.Input, c.Output)) {
				h.calls[i].Return, h.calls[i].Output = never, nil
			}
		}
		sure = append(sure, h)
	}
	return sure
}

// TestLossyPromotion has the primary crash and an asynchronous standby promoted, which has received nothing for a while.
// What was answered in that time can be lost, from some moment on, and nothing else. The processes end with the primary,
// because what they have read may not have happened.
func TestLossyPromotion(t *testing.T) {
	racing.LongOnly(t)
	t.Parallel()
	for range 10 {
		t.Run("loses an end", promoteLossy)
	}
}

func promoteLossy(t *testing.T) {
	address, primary, standby := newPair(t, false)
	c := start(t, database{address: address}, math.MaxInt64, promotionSlots)
	require.NoError(t, c.untilCalls(promotionRound/2))
	cut := during(disconnection, func() { require.NoError(t, standby.Disconnect(t.Context())) })
	require.NoError(t, c.untilCalls(c.calls.Load()+promotionRound/2))
	promoted := during(promotion, func() {
		primary.Kill()
		for _, p := range c.living {
			p.kill()
		}
		require.NoError(t, standby.Promote(context.WithoutCancel(t.Context())))
	})
	c.Calls = c.calls.Load() + 3*promotionRound/2
	c.spawnAll()
	journals := c.journals()
	late := cut
	late.Call, late.Return = promoted.Call, promoted.Call
	lost, found := 0, 0
	for strict, lossy := range map[*object]object{
		&sessions: lossyOf("run", sessionState.step), &spends: lossyOf("scope", spendState.step),
	} {
		all := strict.histories(t, journals)
		illegal := strict.check(t, all)
		t.Logf("%d histories of %ss, of which %d have lost something", len(all), strict.prefix, len(illegal))
		lost += len(illegal)
		found += len(lossy.check(t, with(illegal, late, promoted)))
		for _, h := range lossy.check(t, with(all, cut, promoted)) {
			t.Errorf("this history has lost more than an end; times are in microseconds: %s", lossy.shortest(h))
		}
	}
	assert.NotZero(t, lost, "nothing was lost")
	assert.NotZero(t, found, "what was lost before the standby was disconnected is not found")
}

// with returns the histories with what happened to all of their objects.
func with(all []history, events ...porcupine.Operation) (more []history) {
	for _, h := range all {
		more = append(more, history{h.object, append(slices.Clone(h.calls), events...)})
	}
	return more
}

// An event is what happens to all objects at once.
type event string

const (
	disconnection event = "the standby is disconnected"
	promotion     event = "the standby is promoted"
)

func during(e event, do func()) porcupine.Operation {
	call := int64(sinceBoot())
	do()
	return porcupine.Operation{Input: e, Call: call, Return: int64(sinceBoot())}
}

// A lossyState is a state, with those that it may have again if the standby is promoted.
type lossyState[State comparable] struct {
	now    State
	before []State
	losing bool
}

// lossyOf makes an object of a state that goes back, with the promotion of a standby, to one that it had after the
// standby was disconnected.
func lossyOf[State comparable, Call, Answer any](
	prefix string, step func(s State, c Call, a *Answer) (bool, State),
) object {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{lossyState[State]{}} },
		Step: func(s, in, out any) []any {
			from := s.(lossyState[State])
			if e, is := in.(event); is {
				return from.after(e)
			}
			answer, _ := out.(*Answer)
			legal, next := step(from.now, in.(Call), answer)
			if !legal {
				return nil
			}
			return []any{from.followedBy(next)}
		},
		Equal: func(a, b any) bool { return a.(lossyState[State]).equal(b.(lossyState[State])) },
	}
	o := objectOf(prefix, step)
	o.model = model.ToModel()
	return o
}

func (s lossyState[State]) after(e event) (all []any) {
	if e == disconnection {
		return []any{lossyState[State]{now: s.now, losing: true}}
	}
	for _, state := range append(slices.Clip(s.before), s.now) {
		all = append(all, lossyState[State]{now: state})
	}
	return all
}

func (s lossyState[State]) followedBy(next State) lossyState[State] {
	if s.losing && !slices.Contains(s.before, s.now) {
		s.before = append(slices.Clip(s.before), s.now)
	}
	s.now = next
	return s
}

func (s lossyState[State]) equal(other lossyState[State]) bool {
	return s.now == other.now && s.losing == other.losing && slices.Equal(s.before, other.before)
}
