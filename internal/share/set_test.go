package share_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

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

// A history is two sessions that share a limit, and the stores of their limits.
type history struct {
	t        *testing.T
	random   *rand.Rand
	team     *store
	own      []*store
	sessions []*session
	used     []int64
}

// TestSetModel plays random histories of two sessions that share a limit, whose stores fail at times. Once all is
// settled and closed, the stores are charged with what was used: no more, and no less.
func TestSetModel(t *testing.T) {
	for seed := range uint64(50) {
		inBubble(t, func(t *testing.T, _ *store, _ *share.Limit, c *share.Carrier) {
			h := &history{t: t, used: make([]int64, 2), team: &store{name: "team", slices: map[string]int64{}}}
			h.random = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed that gives the same history again
			for i := range h.used {
				h.own = append(h.own, &store{name: fmt.Sprint("own ", i), slices: map[string]int64{}})
				h.sessions = append(h.sessions, newSession(t, c, h.own[i], h.team))
			}
			for range 30 {
				h.step(h.random.IntN(2))
				synctest.Wait()
			}
			h.end()
			for i, own := range h.own {
				require.Equal(t, h.used[i], own.charged)
			}
			require.Equal(t, h.used[0]+h.used[1], h.team.charged)
		})
	}
}

func (h *history) step(i int) {
	s, stores := h.sessions[i], []*store{h.own[i], h.team}
	switch n := h.random.IntN(10); {
	case n < 5:
		s.admit(h.t, h.random.Int64N(9)+1)
	case n < 8 && len(s.open) > 0:
		h.settle(i, h.random.Int64N(9)-4)
	case n < 9:
		_ = s.set.Cover(nil)
		require.False(h.t, stores[0].before == nil && stores[1].before == nil && s.set.Uncovered())
	default:
		for _, one := range stores {
			one.before = nil
			if h.random.IntN(2) == 0 {
				one.before = func(context.Context) error { return errAway }
			}
		}
	}
}

// settle settles the last open call with so much more than it was admitted with.
func (h *history) settle(i int, beyond int64) (late bool) {
	s := h.sessions[i]
	one := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	n := max(one.most+beyond, 0)
	h.used[i] += n
	return s.settle(one, n)
}

// end has the stores answer, and closes the sessions, each with a call that is settled after that.
func (h *history) end() {
	h.team.before, h.own[0].before, h.own[1].before = nil, nil, nil
	for i, s := range h.sessions {
		s.admit(h.t, 5)
		for len(s.open) > 1 {
			h.settle(i, h.random.Int64N(9)-4)
		}
		s.close(h.t)
	}
	for i, s := range h.sessions {
		require.True(h.t, h.settle(i, 3))
		require.True(h.t, s.set.Owes())
		require.NoError(h.t, s.set.Settle())
		require.False(h.t, s.set.Owes())
	}
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
