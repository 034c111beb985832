package share_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/share"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("away")

// A store keeps one limit of requests, which nothing exceeds.
type store struct {
	name    string
	charged int64
	slices  map[string]int64
	takes   int
	before  func(ctx context.Context) error // each call of the store
}

func (s *store) Take(ctx context.Context, slice *ledger.Slice) (g ledger.Grant, err error) {
	s.takes++
	if err := s.wait(ctx); err != nil {
		return g, err
	}
	if _, again := s.slices[slice.ID]; !again {
		s.slices[slice.ID] = slice.Least[verdict.KindRequests]
		s.charged += s.slices[slice.ID]
	}
	g = ledger.Grant{Fits: true, Window: "1 h", Ends: time.Hour}
	g.Granted[verdict.KindRequests], g.Charged[verdict.KindRequests] = s.slices[slice.ID], s.charged
	return g, nil
}

func (s *store) Return(ctx context.Context, one ledger.Return) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	s.charged -= one.Unused[verdict.KindRequests]
	return nil
}

func (s *store) wait(ctx context.Context) error {
	if s.before == nil {
		return nil
	}
	return s.before(ctx)
}

func (s *store) MayBeCharged(error) bool { return true }
func (s *store) AnswersAtOnce() bool     { return false }
func (s *store) String() string          { return s.name }
func (s *store) Amounts(counts *verdict.Counts) string {
	return fmt.Sprint(counts[verdict.KindRequests])
}

// inBubble tests a limit, carried by other goroutines and by the caller's.
func inBubble(t *testing.T, name string, test func(t *testing.T, s *store, l *share.Limit, c *share.Carrier)) {
	t.Helper()
	for how, inline := range map[string]bool{"aside": false, "inline": true} {
		t.Run(name+", "+how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{name: "team", slices: map[string]int64{}}
				began := time.Now()
				c := &share.Carrier{Timeout: time.Second, Inline: inline, Stopwatch: func() func() time.Duration {
					return func() time.Duration { return time.Since(began) }
				}}
				test(t, s, share.Own(s), c)
			})
		})
	}
}

func slice(n int64) *ledger.Slice {
	return &ledger.Slice{Least: verdict.Counts{verdict.KindRequests: n}}
}

func TestTake(t *testing.T) {
	inBubble(t, "one whose answer was lost is asked for again, and no other", func(t *testing.T, s *store, l *share.Limit, c *share.Carrier) {
		fits, err := l.Take(t.Context(), c, slice(5))
		require.True(t, fits)
		require.NoError(t, err)
		s.before = func(context.Context) error { return errAway }
		_, err = l.Take(t.Context(), c, slice(6))
		require.EqualError(t, err, "take a slice of team: away")
		s.before = nil
		fits, err = l.Take(t.Context(), c, slice(7))
		require.True(t, fits)
		require.NoError(t, err)
		require.EqualValues(t, 11, s.charged, "the slice whose answer was lost is asked for again, and no other")
		require.NoError(t, l.Close(t.Context(), c))
		require.Zero(t, s.charged)
	})
	inBubble(t, "one waits for another, no longer than it may", func(t *testing.T, s *store, l *share.Limit, c *share.Carrier) {
		answer := make(chan struct{})
		s.before = func(context.Context) error { <-answer; return nil }
		go func() { _, _ = l.Take(context.Background(), c, slice(5)) }()
		synctest.Wait()
		ctx, cancel := c.Context(t.Context())
		defer cancel()
		began := time.Now()
		_, err := l.Take(ctx, c, slice(5))
		require.EqualError(t, err, "wait for a slice of team: context deadline exceeded")
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, 1, s.takes, "a store that hangs is not asked again")
		require.True(t, l.Leave())
		require.NoError(t, l.Close(t.Context(), c))
		close(answer)
		synctest.Wait()
		require.Zero(t, s.charged, "what is granted after the end is given back")
	})
	inBubble(t, "a store that ends the goroutine of one leaves the turn to the next", func(t *testing.T, s *store, l *share.Limit, c *share.Carrier) {
		s.before = func(context.Context) error { runtime.Goexit(); return nil }
		go func() { _, _ = l.Take(context.Background(), c, slice(5)) }()
		synctest.Wait()
		s.before = nil
		_, err := l.Take(t.Context(), c, slice(6))
		require.NoError(t, err)
		require.EqualValues(t, 5, s.charged, "it is asked again for the slice that may be charged")
	})
}

func TestSettle(t *testing.T) {
	owing := func(t *testing.T, l *share.Limit, c *share.Carrier) {
		t.Helper()
		require.NoError(t, l.Begin(t.Context(), c, &verdict.Counts{}))
		book := &ledger.Ledger{}
		session := &ledger.Account{}
		book.OpenSession(session, verdict.NewSpend(nil, false), "")
		book.AddLimits([]verdict.CountLimit{{
			CountID: verdict.CountID{Kind: verdict.KindRequests, Scope: "team"}, Max: 100,
		}}, "")
		book.AddSource(&l.Held, "team", "")
		call, out := ledger.Call{Owes: true}, ledger.Outcome{}
		call.Use.Counts[verdict.KindRequests] = 9
		session.Admit(&call, &out)
		require.Equal(t, ledger.Charged, out.Did)
	}
	inBubble(t, "takes what is owed", func(t *testing.T, s *store, l *share.Limit, c *share.Carrier) {
		owing(t, l, c)
		s.before = func(context.Context) error { return errAway }
		require.EqualError(t, l.Settle(t.Context(), c), "not charged with 9 that were used: take a slice of team: away")
		require.ErrorIs(t, l.Unpaid(nil), errAway)
		s.before = nil
		require.NoError(t, l.Settle(t.Context(), c))
		require.NoError(t, l.Unpaid(nil))
		require.EqualValues(t, 9, s.charged)
	})
	inBubble(t, "once, however many cover it", func(t *testing.T, s *store, l *share.Limit, c *share.Carrier) {
		owing(t, l, c)
		failed, takes := 0, s.takes
		s.before = func(context.Context) error { time.Sleep(time.Millisecond); return errAway }
		for range 3 {
			go func() { _ = l.Cover(context.Background(), c, func() { failed++ }) }()
		}
		synctest.Wait()
		require.NoError(t, l.Cover(t.Context(), c, nil), "somebody does")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, takes+1, s.takes)
		require.Equal(t, 1, failed)
		s.before = nil
		require.NoError(t, l.Close(t.Context(), c))
		require.EqualValues(t, 9, s.charged)
	})
}

func TestGiveBack(t *testing.T) {
	inBubble(t, "of a window that is over, by who takes the next slice", func(t *testing.T, s *store, l *share.Limit, c *share.Carrier) {
		_, _ = l.Take(t.Context(), c, slice(5))
		time.Sleep(time.Hour)
		_, _ = l.Take(t.Context(), c, slice(7))
		synctest.Wait()
		require.EqualValues(t, 7, s.charged)
	})
	inBubble(t, "what there was no time for, by a slice that is answered late", func(t *testing.T, s *store, l *share.Limit, c *share.Carrier) {
		_, _ = l.Take(t.Context(), c, slice(5))
		answer := make(chan struct{})
		s.before = func(context.Context) error { <-answer; return nil }
		go func() { _, _ = l.Take(context.Background(), c, slice(6)) }()
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.EqualError(t, l.Close(ended, c), "give back slices of team: context canceled")
		close(answer)
		synctest.Wait()
		require.Zero(t, s.charged)
	})
}

func TestOpen(t *testing.T) {
	one := &store{name: "one"}
	first, second, other := share.Open(one), share.Open(one), share.Open(&store{name: "one"})
	require.Same(t, first, second)
	require.NotSame(t, first, other)
	require.Equal(t, []*share.Limit{first, other}, share.InOrder([]*share.Limit{other, first, second}))
	require.False(t, first.Leave())
	require.True(t, second.Leave())
	third := share.Open(one)
	require.NotSame(t, first, third, "it is closed")
	require.True(t, third.Leave())
	require.True(t, other.Leave())
}

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

// TestSet protects that whoever closes hears of what the stores did not take.
func TestSet(t *testing.T) {
	inBubble(t, "what is not charged is tried again", func(t *testing.T, own *store, _ *share.Limit, c *share.Carrier) {
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
	inBubble(t, "what cannot be given back is told of", func(t *testing.T, own *store, _ *share.Limit, c *share.Carrier) {
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
