//go:build linux

package histories_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// rounds is how often the judge looks for a fault at most: the calls are random.
const rounds = 20

// TestFindsFaults has the judge find each fault of a table, and no other, in a store that has just that one.
func TestFindsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		illegal bool
		breaks  func(b base) store
	}{
		"none":                                  {false, func(b base) store { return b }},
		"a cancel does not look at the attempt": {true, func(b base) store { return attemptless{b} }},
		"a cancel does not look for the end of the window": {true, func(b base) store { return windowless{b} }},
		"a claim does not look for another":                {true, func(b base) store { return claimless{b} }},
		"an end does not look at the attempt":              {true, func(b base) store { return anyEnd{b} }},
		"a freshen revives an attempt that was cancelled":  {true, func(b base) store { return reviving{b} }},
		"a freshen does not look at the lease":             {true, func(b base) store { return anyLease{b} }},
		"a warning does not look at the signs":             {true, func(b base) store { return signless{b} }},
		"a cancel of several writes half":                  {true, func(b base) store { return halving{b} }},
		"an expiry does not look at the beat":              {true, func(b base) store { return beatless{b} }},
		"an expiry takes no session out of the lease":      {true, func(b base) store { return staying{b} }},
		"a lease is told of an end once only":              {true, func(b base) store { return forgetful{b} }},
		"a lease is not told who took its session over":    {true, func(b base) store { return untold{b} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := false
			for round := 0; round == 0 || round < rounds && found != c.illegal; round++ {
				found = findsFault(t, callBroken(t, c.breaks)) || found
			}
			require.Equal(t, c.illegal, found)
		})
	}
}

// callBroken returns the journals of goroutines that call a broken store.
func callBroken(t *testing.T, breaks func(b base) store) [][]line {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "broken.db")
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	j := job{Name: "p0", Folder: folder, Calls: 6 * callsOfSlot, Slots: everySlot}
	require.NoError(t, j.do(breaks(base{s, db})))
	require.NoError(t, db.Close())
	require.NoError(t, s.Close())
	lines, err := readJournal(j.journal())
	require.NoError(t, err)
	return [][]line{lines}
}

func findsFault(t *testing.T, journals [][]line) bool {
	t.Helper()
	all := sessions.histories(t, journals)
	require.NotEmpty(t, all)
	illegal := sessions.check(t, all)
	if len(illegal) == 0 {
		return false
	}
	t.Logf("%d of %d histories are not linearizable, such as %s", len(illegal), len(all), sessions.shortest(illegal[0]))
	return true
}

// A base is what all broken stores are made of.
type base struct {
	*sqlite.Store
	db *sql.DB
}

// asItIs returns the row as it is now, whatever it was judged by.
func (b base) asItIs(ctx context.Context, judged session.Session) session.Session {
	if now, err := b.Session(ctx, judged.RunID); err == nil {
		return now
	}
	return judged
}

type attemptless struct{ base }

func (s attemptless) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	now := s.asItIs(ctx, judged)
	c.Events = stalled(now).CancelEvents()
	return s.Store.Cancel(ctx, now, c)
}

type windowless struct{ base }

func (s windowless) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	of := judged
	of.StartedAt = of.StartedAt.Add(time.Duration(judged.Attempt) * time.Minute)
	c.Events = stalled(of).CancelEvents()
	return s.Store.Cancel(ctx, judged, c)
}

type claimless struct{ base }

func (s claimless) Claim(ctx context.Context, judged session.Session, c session.ClaimRequest) (session.Outcome, error) {
	c.By = s.asItIs(ctx, judged).Claim
	return s.Store.Claim(ctx, judged, c)
}

type anyEnd struct{ base }

func (s anyEnd) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	for i, e := range ends {
		ends[i].Attempt = s.asItIs(ctx, session.Session{RunID: e.RunID, Attempt: e.Attempt}).Attempt
	}
	return s.Store.End(ctx, ends)
}

type reviving struct{ base }

func (s reviving) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	for _, f := range fresh {
		if _, err := s.db.ExecContext(ctx, "UPDATE watchdog_sessions SET status = 'active', reason = '' "+
			"WHERE run_id = ? AND attempt = ? AND status = 'cancelled'", f.RunID, f.Attempt); err != nil {
			return session.Skipped{}, err
		}
	}
	return s.Store.Freshen(ctx, lease, fresh)
}

type anyLease struct{ base }

func (s anyLease) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (skipped session.Skipped, err error) {
	if skipped, err = s.Store.Freshen(ctx, lease, fresh); errors.Is(err, session.ErrLeaseExpired) {
		err = nil
	}
	return skipped, err
}

type signless struct{ base }

func (s signless) Warn(ctx context.Context, judged session.Session, events []watchdog.Event) (session.Outcome, error) {
	return s.Store.Warn(ctx, s.asItIs(ctx, judged), events)
}

type halving struct{ base }

func (s halving) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	outcomes, err := s.Store.CancelAll(ctx, all[:len(all)/2])
	for range all[len(outcomes):] {
		outcomes = append(outcomes, session.Done)
	}
	return outcomes, err
}

type beatless struct{ base }

func (s beatless) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	all, err := s.ObserveLeases(ctx, nil)
	if err != nil {
		return false, 0, err
	}
	for _, now := range all {
		if now.ID == l.ID {
			l.Beat = now.Beat
		}
	}
	return s.Store.ExpireLease(ctx, l)
}

type staying struct{ base }

func (s staying) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	done, err := s.db.ExecContext(ctx, "UPDATE watchdog_leases SET expired = 'now' WHERE id = ? AND beat = ?", l.ID, l.Beat)
	if err != nil {
		return false, 0, err
	}
	if n, err := done.RowsAffected(); n > 0 || err != nil {
		return true, 0, err
	}
	return s.Store.ExpireLease(ctx, l)
}

type forgetful struct{ base }

func (s forgetful) Ended(
	ctx context.Context, lease string, told []session.AttemptID,
) (ended []session.AttemptID, err error) {
	if ended, err = s.Store.Ended(ctx, lease, told); err == nil && len(ended) > 0 {
		_, err = s.Store.Ended(ctx, lease, ended)
	}
	return ended, err
}

type untold struct{ base }

func (s untold) Attach(ctx context.Context, run session.Session) (before, after session.Session, err error) {
	if before, after, err = s.Store.Attach(ctx, run); err == nil && before.Lease != "" {
		_, err = s.Ended(ctx, before.Lease, []session.AttemptID{{RunID: before.RunID, Attempt: before.Attempt}})
	}
	return before, after, err
}

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
	t.Parallel()
	for range racing.Rounds(1, 10) {
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
	all := sessions.histories(t, c.journals())
	t.Logf("%d histories are not linearizable with what was read from a server that was killed", len(sessions.check(t, all)))
	require.Empty(t, judge(t, withoutReads(all, killed),
		"attach", "read", "freshen", "end", " done", "expire lease expired"))
}

// written are the outcomes of which a server wrote something, or locked it: its answer waited for the standby.
var written = []string{
	"attach", "freshen", "end", "warn done", "claim done", "claim end_stored", "cancel done", "cancel end_stored",
	"cancel all done", "cancel all end_stored", "complete finished", "begin lease", "renew lease",
}

// withoutReads returns the histories without the answers that came during an event, but for those of writes.
func withoutReads(all []history, during porcupine.Operation) (sure []history) {
	for _, h := range all {
		h.calls = slices.Clone(h.calls)
		for i, c := range h.calls {
			if c.Return >= during.Call && c.Return <= during.Return && !slices.Contains(written, outcomeOf(c.Input, c.Output)) {
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
	for range racing.Rounds(1, 10) {
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
	late := cut
	late.Call, late.Return = promoted.Call, promoted.Call
	lossy, all := lossyOf("run", sessionState.step), sessions.histories(t, c.journals())
	illegal := sessions.check(t, all)
	t.Logf("%d histories, of which %d have lost something", len(all), len(illegal))
	for _, h := range lossy.check(t, with(all, cut, promoted)) {
		t.Errorf("this history has lost more than an end; times are in microseconds: %s", lossy.shortest(h))
	}
	require.NotEmpty(t, illegal, "nothing was lost")
	require.NotEmpty(t, lossy.check(t, with(illegal, late, promoted)),
		"what was lost before the standby was disconnected is not found")
}

// with returns the histories with what happened to all of their objects.
func with(all []history, events ...porcupine.Operation) (more []history) {
	for _, h := range all {
		more = append(more, history{h.object, append(slices.Clone(h.calls), events...)})
	}
	return more
}

// An incident is what happens to all objects at once.
type incident string

const (
	disconnection incident = "the standby is disconnected"
	promotion     incident = "the standby is promoted"
)

func during(e incident, do func()) porcupine.Operation {
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
			if e, is := in.(incident); is {
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

func (s lossyState[State]) after(e incident) (all []any) {
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
