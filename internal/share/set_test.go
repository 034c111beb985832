package share_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/share"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A session draws on limits of the scopes "own" and "team".
type session struct {
	mu      sync.Mutex
	book    ledger.Ledger
	account ledger.Account
	set     *share.Set
	open    []open
}

// An open call was admitted with that many requests.
type open struct {
	id   ledger.ID
	most int64
}

func newSession(t *testing.T, c *share.Carrier, own, team *store) *session {
	t.Helper()
	s := &session{}
	s.book.OpenSession(&s.account, verdict.NewSpend(nil, false), "")
	s.set = share.NewSet(*c, &s.book, &s.mu)
	for i, l := range []*share.Limit{share.Own(own), share.Open(team)} {
		id := verdict.CountID{Kind: verdict.KindRequests, Scope: []string{"own", "team"}[i]}
		s.book.AddLimits([]verdict.CountLimit{{CountID: id, Max: 1000}}, "")
		s.set.Add(l, id.Scope, "")
	}
	require.NoError(t, s.set.Begin(t.Context()))
	return s
}

// admit admits a call of so many requests, as a run that is only observed if the store does not answer.
func (s *session) admit(t *testing.T, n int64) {
	t.Helper()
	call, out := ledger.Call{}, ledger.Outcome{}
	call.Use.Counts[verdict.KindRequests] = n
	for range 10 {
		s.locked(func() { s.account.Admit(&call, &out) })
		if out.Did != ledger.Lacking {
			break
		}
		var want ledger.Slice
		s.locked(func() { want = s.book.Wants(&call, out.Why.Source) })
		_, err := s.set.Take(t.Context(), out.Why.Source, &want)
		call.Owes = err != nil
	}
	require.Equal(t, ledger.Charged, out.Did)
	s.open = append(s.open, open{out.ID, n})
}

// settle settles the call with so many requests, and reports whether the session is closed.
func (s *session) settle(one open, used int64) (late bool) {
	var use verdict.Use
	use.Counts[verdict.KindRequests] = used
	var out ledger.Outcome
	s.locked(func() { s.book.Settle(one.id, &use, "", &out) })
	return out.Late
}

// locked makes the call with all locks that the ledger needs.
func (s *session) locked(call func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Lock()
	defer s.set.Unlock()
	call()
}

func (s *session) close(t *testing.T) {
	t.Helper()
	s.locked(func() { require.True(t, s.account.Close()) })
	s.set.Close(func(l *share.Limit, err error) { require.NoError(t, err, l.String()) })
}

// TestSetUnpaid protects that whoever closes hears of what the stores did not take, and can try again.
func TestSetUnpaid(t *testing.T) {
	inBubble(t, func(t *testing.T, own *store, _ *share.Limit, c *share.Carrier) {
		team := &store{name: "others", slices: map[string]int64{}}
		s := newSession(t, c, own, team)
		require.NoError(t, s.set.Unpaid())
		s.admit(t, 5)
		own.before = func(context.Context) error { return errAway }
		s.settle(s.open[0], 9)
		require.Error(t, s.set.Cover(nil))
		require.True(t, s.set.Uncovered())
		s.close(t)
		err := s.set.Settle()
		require.ErrorContains(t, err, "not charged with 4 that were used: take a slice of team: away")
		own.before = nil
		require.NoError(t, s.set.Settle())
		require.EqualValues(t, 9, own.charged)
		require.EqualValues(t, 9, team.charged)
	})
}

// TestSetStaysCharged protects that what cannot be given back is told of.
func TestSetStaysCharged(t *testing.T) {
	inBubble(t, func(t *testing.T, own *store, _ *share.Limit, c *share.Carrier) {
		team := &store{name: "others", slices: map[string]int64{}}
		s := newSession(t, c, own, team)
		s.admit(t, 5)
		s.settle(s.open[0], 1)
		team.before = func(context.Context) error { return errAway }
		var told []string
		s.locked(func() { s.account.Close() })
		s.set.Close(func(l *share.Limit, err error) { told = append(told, fmt.Sprint(l, ": ", err)) })
		require.Len(t, told, 1)
		require.Contains(t, told[0], "others: give back slice ")
		require.EqualValues(t, 1, own.charged)
		require.EqualValues(t, 5, team.charged)
	})
}

// TestSetLocks protects sessions that draw on the same limits in another order, and on one of them twice: nobody waits
// for ever, and only one has a limit at a time.
func TestSetLocks(t *testing.T) {
	a, b := share.Open(&store{name: "a"}), share.Open(&store{name: "b"})
	var held [2]int // of a and of b
	var all sync.WaitGroup
	for _, limits := range [][]*share.Limit{{a, b, a}, {b, a}, {b}} {
		s := &session{}
		s.book.OpenSession(&s.account, verdict.NewSpend(nil, false), "")
		s.set = share.NewSet(share.Carrier{}, &s.book, &s.mu)
		for _, l := range limits {
			s.set.Add(l, "", "")
		}
		all.Go(func() {
			for range 500 {
				s.locked(func() {
					for i, l := range []*share.Limit{a, b} {
						if slices.Contains(limits, l) {
							before := held[i]
							runtime.Gosched()
							held[i] = before + 1
						}
					}
				})
			}
		})
	}
	all.Wait()
	require.Equal(t, [2]int{1000, 1500}, held)
}
