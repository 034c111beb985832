package sqlite_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

// TestLikeMemory makes random calls to the store and to [session.Memory], the plain form of what every store does, and
// compares the answers and the rows. Times are not compared: each store has a clock of its own.
func TestLikeMemory(t *testing.T) {
	t.Parallel()
	for seed := range racing.Rounds(uint64(3), 12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := newStore(t, openOne(t, ":memory:"))
			p := pair{t: t, rand: rand.New(rand.NewPCG(seed, 0)), stores: []session.Store{&session.Memory{}, s}}
			for range 250 {
				p.step()
				p.compareAll()
			}
		})
	}
}

// A pair is two stores that get the same calls.
type pair struct {
	t      *testing.T
	rand   *rand.Rand
	stores []session.Store
	told   map[string][]session.AttemptID // by lease, what it was told
	events int64
	stages []string // for an error
}

// both makes a call to both stores and compares what it returns, as text.
func (p *pair) both(what string, call func(i int, s session.Store) (any, error)) {
	p.t.Helper()
	var got []string
	for i, s := range p.stores {
		value, err := call(i, s)
		expired := without(session.ErrLeaseExpired, err) == nil && err != nil
		if err != nil && !expired {
			got = append(got, "an error")
			continue
		}
		got = append(got, fmt.Sprintf("%+v, lease expired: %v", value, expired))
	}
	p.stages = append(p.stages, what+": "+got[0])
	if got[0] != got[1] {
		for _, stage := range p.stages {
			p.t.Log(stage)
		}
	}
	require.Equal(p.t, got[0], got[1], what)
}

func pick[T any](p *pair, of ...T) T { return of[p.rand.IntN(len(of))] }

func (p *pair) runID() string { return fmt.Sprint("run-", p.rand.IntN(6)) }
func (p *pair) lease() string { return fmt.Sprint("lease-", p.rand.IntN(3)) }

func (p *pair) step() {
	ctx := p.t.Context()
	runID, lease, attempt := p.runID(), p.lease(), 1+p.rand.IntN(4)
	beat, clock := int64(p.rand.IntN(40)), time.Duration(p.rand.IntN(40))*time.Second
	l := session.Lease{
		ID: lease, Host: "host", Promise: time.Second, Beat: beat, Clock: clock, Vouched: clock / 2, Behind: p.behind(),
		Covered: pick(p, 0, clock/2, clock*2/3),
	}
	switch p.rand.IntN(13) {
	case 0:
		p.both(fmt.Sprintf("BeginLease %+v", l), func(_ int, s session.Store) (any, error) { return nil, s.BeginLease(ctx, l) })
	case 1, 2:
		p.both(fmt.Sprintf("RenewLease %+v", l), func(_ int, s session.Store) (any, error) { return nil, s.RenewLease(ctx, l) })
	case 3:
		p.both(fmt.Sprintf("ExpireLease %+v", l), func(_ int, s session.Store) (any, error) {
			expired, left, err := s.ExpireLease(ctx, l)
			return fmt.Sprint(expired, left), err
		})
	case 4, 5:
		run := session.Session{
			RunID: runID, Lease: pick(p, "", lease, lease), Attempt: pick(p, 0, 0, 0, attempt), StartedAt: noon, Host: "host",
			Threshold: pick(p, 0, time.Second, 10*time.Second, watchdog.NoLimit), State: p.state(),
		}
		p.both(fmt.Sprintf("Attach %+v", run), func(_ int, s session.Store) (any, error) {
			before, after, err := s.Attach(ctx, run)
			return []string{timeless(before), timeless(after)}, err
		})
	case 6, 7, 8:
		p.freshen(lease)
	case 9:
		e := session.Ending{
			RunID: runID, Attempt: attempt, Status: pick(p, session.Finished, session.Cancelled, session.Interrupted), Age: time.Hour + clock,
		}
		p.both(fmt.Sprintf("End %+v", e), func(_ int, s session.Store) (any, error) {
			skipped, err := s.End(ctx, []session.Ending{e})
			return skipped.Gone, err
		})
	case 10:
		e := p.event(runID, watchdog.EventComplete)
		p.both("Append "+e.ID, func(_ int, s session.Store) (any, error) { return nil, s.Append(ctx, e) })
	case 11:
		p.start(runID)
	default:
		p.judge(runID)
	}
}

// start puts off the start of a run, which may be due then, and claims the one that is.
func (p *pair) start(runID string) {
	ctx, pause, stale := p.t.Context(), pick(p, 0, 0, time.Hour, session.NoMoreStarts), p.rand.IntN(5) == 0
	p.both(fmt.Sprintf("PutOffStart %s %v", runID, pause), func(_ int, s session.Store) (any, error) {
		row, err := s.Session(ctx, runID)
		if errors.Is(err, session.ErrNotFound) {
			return nil, nil
		}
		if stale {
			row.Start.Tries--
		}
		done, putOffErr := s.PutOffStart(ctx, row, pause)
		return done, errors.Join(err, putOffErr)
	})
	p.both("ClaimStart", func(_ int, s session.Store) (any, error) {
		claimed, err := s.ClaimStart(ctx, time.Hour)
		if errors.Is(err, session.ErrNotFound) {
			return "none", nil
		}
		return timeless(claimed), err
	})
}

// behind returns rows that a lease names, few or none.
func (p *pair) behind() (all []session.RowBehind) {
	for runID := range p.rand.IntN(12) - 6 {
		all = append(all, session.RowBehind{
			RunID: fmt.Sprint("run-", runID), Attempt: 1 + p.rand.IntN(4), Written: time.Duration(p.rand.IntN(20)) * time.Second,
		})
	}
	return all
}

func (p *pair) state() json.RawMessage {
	if p.rand.IntN(3) > 0 {
		return nil
	}
	return fmt.Appendf(nil, `{"warned":%d}`, p.rand.IntN(100))
}

func (p *pair) freshen(lease string) {
	var fresh []session.Freshness
	for range p.rand.IntN(6) {
		f := session.Freshness{
			RunID: p.runID(), Attempt: 1 + p.rand.IntN(4), Quiet: p.rand.IntN(2) == 0, State: p.state(),
			Activity: max(time.Duration(p.rand.IntN(20)-2)*time.Second, session.NoActivity),
		}
		if !slices.ContainsFunc(fresh, func(g session.Freshness) bool { return g.RunID == f.RunID }) {
			fresh = append(fresh, f)
		}
	}
	p.both(fmt.Sprintf("Freshen %s %+v", lease, fresh), func(_ int, s session.Store) (any, error) {
		skipped, err := s.Freshen(p.t.Context(), lease, fresh)
		slices.Sort(skipped.Gone)
		return skipped.Gone, err
	})
}

// event returns an event of a run, with one of a few IDs.
func (p *pair) event(runID, kind string) watchdog.Event {
	p.events++
	e := numbered(p.events)
	e.ID, e.AggregateID, e.Type = fmt.Sprint(runID, "-end-", p.rand.IntN(20)), runID, kind
	return e
}

// judge claims, warns or cancels a session as it is now, or as it was with another activity.
func (p *pair) judge(runID string) {
	ctx := p.t.Context()
	by, older, more := pick(p, "", "a", "b"), p.rand.IntN(5) == 0, time.Duration(p.rand.IntN(5)/4)
	judged := func(s session.Store) session.Session {
		row, _ := s.Session(ctx, runID)
		if older {
			row.Activity--
		}
		if row.Lease != "" {
			row.Silence += more // of a judgement before the lease named the row
		}
		return row
	}
	e, advisory := p.event(runID, watchdog.EventCancel), p.event(runID, watchdog.EventWarning)
	switch p.rand.IntN(3) {
	case 0:
		c := session.ClaimRequest{By: by, For: pick(p, -time.Hour, time.Hour), EndID: e.ID}
		p.both(fmt.Sprintf("Claim %s %+v", runID, c), func(_ int, s session.Store) (any, error) { return s.Claim(ctx, judged(s), c) })
	case 1:
		p.both("Warn "+runID, func(_ int, s session.Store) (any, error) {
			return s.Warn(ctx, judged(s), []watchdog.Event{advisory})
		})
	default:
		c := session.CancelRequest{
			By: by, Reason: "r", Resumes: 1, StopFailed: p.rand.IntN(2) == 0, Events: []watchdog.Event{advisory, e},
			StartFor: pick(p, 0, time.Hour),
		}
		p.both(fmt.Sprintf("Cancel %s by %q with %s", runID, by, e.ID), func(_ int, s session.Store) (any, error) {
			return s.Cancel(ctx, judged(s), c)
		})
	}
}

// compareAll compares everything that can be read.
func (p *pair) compareAll() {
	ctx := p.t.Context()
	p.both("List", func(_ int, s session.Store) (any, error) {
		page, err := s.(session.Lister).List(ctx, session.ListQuery{Limit: 100})
		return timelessAll(page.Sessions), err
	})
	p.both("leases", func(_ int, s session.Store) (any, error) {
		all, err := s.ObserveLeases(ctx, nil)
		for i := range all {
			all[i].RenewedAt = time.Time{}
		}
		return all, err
	})
	lease := p.lease()
	p.both("LeaseSessions "+lease, func(_ int, s session.Store) (any, error) {
		named, err := s.LeaseSessions(ctx, lease)
		slices.SortFunc(named, func(a, b session.AttemptID) int { return cmp.Compare(a.RunID, b.RunID) })
		return named, err
	})
	told := p.told[lease]
	p.both("Ended "+lease, func(_ int, s session.Store) (any, error) {
		ended, err := s.Ended(ctx, lease, told)
		p.told = map[string][]session.AttemptID{lease: ended[:min(len(ended), 1)]}
		return ended, err
	})
	threshold, limit := pick(p, time.Second, 5*time.Second, watchdog.NoLimit), 1+p.rand.IntN(3)
	p.both("Stalled", func(_ int, s session.Store) (any, error) {
		var all []session.Session
		for q := (session.Query{Threshold: threshold, Limit: limit}); ; {
			page, err := s.Stalled(ctx, q)
			all = append(all, slices.DeleteFunc(page.Sessions, func(s session.Session) bool { return s.Lease == "" })...)
			if q.After = page.Next; q.After == "" {
				return timelessAll(all), err
			}
		}
	})
}

func timelessAll(sessions []session.Session) (all []string) {
	for _, s := range sessions {
		all = append(all, timeless(s))
	}
	slices.Sort(all)
	return all
}

// timeless returns a session as text, with what the clock of the store does not decide.
func timeless(s session.Session) string {
	s.CreatedAt, s.LastEventAt, s.EndedAt = time.Time{}, time.Time{}, time.Time{}
	if !s.WarnedAt.IsZero() {
		s.WarnedAt = noon
	}
	s.Start.Due = time.Time{}
	return fmt.Sprintf("%+v %s", s, s.State)
}
