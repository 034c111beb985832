package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// limitOf is a limit of requests.
func limitOf(scope string, most int64) verdict.CountLimit {
	return verdict.CountLimit{CountID: verdict.CountID{Kind: verdict.KindRequests, Scope: scope}, Max: most}
}

// A run is a session with a layer, of which each has a limit of requests, that draws on shared limits.
type run struct {
	ledger.Ledger
	session, layer ledger.Account
	shared         []*ledger.Shared
}

func newRun(session, layer int64, scopes ...int64) *run {
	r := &run{}
	r.OpenSession(&r.session, verdict.NewSpend([]verdict.CountLimit{limitOf("", session)}, false), "EUR")
	r.OpenLayer(&r.layer, &r.session, verdict.NewSpend([]verdict.CountLimit{limitOf("", layer)}, false), "")
	for i, most := range scopes {
		scope := fmt.Sprint("scope ", i)
		r.AddLimits([]verdict.CountLimit{limitOf(scope, most)}, "")
		r.shared = append(r.shared, &ledger.Shared{})
		r.AddSource(r.shared[i], scope, "")
	}
	return r
}

func requests(n int64) (u verdict.Use) {
	u.Counts[verdict.KindRequests] = n
	return u
}

func (r *run) admit(a *ledger.Account, c ledger.Call) (o ledger.Outcome) {
	a.Admit(&c, &o)
	return o
}

func (r *run) settle(id ledger.ID, n int64) (o ledger.Outcome) {
	use := requests(n)
	r.Settle(id, &use, "", &o)
	return o
}

// grant takes a slice of a shared limit, of a window that lasts so long.
func (r *run) grant(t *testing.T, shared int, n int64, window string, lasts time.Duration) {
	t.Helper()
	want := ledger.Slice{Least: requests(n).Counts}
	_, begun := r.shared[shared].Begin(0, "slice of "+window, &want)
	require.True(t, begun)
	g := ledger.Grant{Fits: true, Granted: want.Least, Charged: want.Least, Window: window, Ends: lasts}
	r.shared[shared].Granted(&g)
}

// returned is what is given back of one slice.
func returned(all []ledger.Return) (n verdict.Counts) {
	for _, one := range all {
		n.Add(&one.Unused)
	}
	return n
}

func (r *run) requireAdmitted(t *testing.T, session, layer int64) {
	t.Helper()
	require.Equal(t, session, r.session.Spend.Use(0).Admitted, "the session")
	require.Equal(t, layer, r.layer.Spend.Use(0).Admitted, "the layer")
}

// TestAdmitAll protects runs from a call that is charged to some of them only.
func TestAdmitAll(t *testing.T) {
	for name, c := range map[string]struct {
		of   func() *run
		use  int64
		did  ledger.Did
		why  func(r *run) ledger.Why
		owes int64
	}{
		"that fits": {of: func() *run { return newRun(10, 10) }, use: 10, did: ledger.Charged},
		"that does not fit in the layer": {
			of: func() *run { return newRun(10, 5) }, use: 6, did: ledger.Refused,
			why: func(r *run) ledger.Why { return ledger.Why{Of: &r.layer} },
		},
		"that does not fit in the run around it": {
			of: func() *run { return newRun(5, 10) }, use: 6, did: ledger.Refused,
			why: func(r *run) ledger.Why { return ledger.Why{Of: &r.session} },
		},
		"of a run that is closed": {
			of: func() *run { r := newRun(10, 10); r.session.Close(); return r }, use: 1, did: ledger.Closed,
			why: func(r *run) ledger.Why { return ledger.Why{Of: &r.session} },
		},
		"that lacks a slice": {
			of: func() *run { return newRun(10, 10, 10, 10) }, use: 1, did: ledger.Lacking,
			why: func(*run) ledger.Why { return ledger.Why{Source: 0} },
		},
		"that lacks one of two slices": {
			of: func() *run {
				r := newRun(10, 10, 10, 10)
				r.grant(t, 0, 5, "", verdict.Never)
				return r
			}, use: 1, did: ledger.Lacking,
			why: func(*run) ledger.Why { return ledger.Why{Source: 1} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.of()
			o := r.admit(&r.layer, ledger.Call{Use: requests(c.use)})
			require.Equal(t, c.did, o.Did)
			if c.did == ledger.Charged {
				r.requireAdmitted(t, c.use, c.use)
				return
			}
			require.Equal(t, c.why(r), *o.Why)
			r.requireAdmitted(t, 0, 0)
			for i, s := range r.shared {
				require.Zero(t, s.Owed(), i)
				if s.Begun() {
					s.Close()
					all := s.Returns()
					require.Equal(t, []ledger.Return{{ID: "slice of ", Unused: requests(5).Counts}}, all)
				}
			}
		})
	}
}

// TestCharges protects a charge from another that has its place.
func TestCharges(t *testing.T) {
	r := newRun(100, 100)
	first := r.admit(&r.layer, ledger.Call{Use: requests(3)})
	require.Equal(t, ledger.Settled, r.settle(first.ID, 2).Did)
	second := r.admit(&r.session, ledger.Call{Use: requests(5)})
	require.Equal(t, ledger.Nothing, r.settle(first.ID, 9).Did)
	require.False(t, r.Void(first.ID))
	require.NotEqual(t, first.ID.Serial(), second.ID.Serial())
	r.requireAdmitted(t, 5, 0)
	require.True(t, r.Void(second.ID))
	r.requireAdmitted(t, 0, 0)
	require.EqualValues(t, 2, r.session.Spend.Use(0).Used)
	require.EqualValues(t, 2, r.layer.Spend.Use(0).Used)
}

// TestKeys protects calls that are made again.
func TestKeys(t *testing.T) {
	r := newRun(1<<20, 1<<20)
	as := func(a *ledger.Account, key string, n int64) ledger.Outcome {
		return r.admit(a, ledger.Call{Key: key, Use: requests(n)})
	}
	first := as(&r.session, "k", 3)
	require.Equal(t, ledger.Outcome{Did: ledger.Known, ID: first.ID}, as(&r.session, "k", 3))
	require.Equal(t, ledger.Known, as(&r.session, "k", 1).Did, "of less")
	require.Equal(t, ledger.Charged, as(&r.layer, "k", 3).Did, "of another run")
	o := as(&r.session, "k", 4)
	require.Equal(t, ledger.Flawed, o.Did)
	require.Contains(t, o.Why.Flaw, "admitted under its key with 3 requests and may use 4 now")
	require.True(t, r.Void(first.ID))
	first = as(&r.session, "k", 4)
	require.Equal(t, ledger.Charged, first.Did, "after it was voided")
	r.settle(first.ID, 4)
	for i := range 1023 {
		r.settle(as(&r.layer, fmt.Sprint(i), 1).ID, 1)
	}
	require.Equal(t, ledger.Known, as(&r.session, "k", 4).Did, "the oldest of those that were settled")
	r.settle(as(&r.layer, "one more", 1).ID, 1)
	require.Equal(t, ledger.Known, as(&r.layer, "0", 1).Did)
	require.Equal(t, ledger.Charged, as(&r.session, "k", 4).Did, "it is forgotten")
	r.settle(as(&r.layer, "two more", 1).ID, 1)
	require.Equal(t, ledger.Charged, as(&r.layer, "0", 1).Did, "so is the next")
}

// TestCurrency protects a run from a second currency.
func TestCurrency(t *testing.T) {
	cost := verdict.Use{Counts: verdict.Counts{verdict.KindCost: 1}}
	for currency, did := range map[string]ledger.Did{"EUR": ledger.Charged, "USD": ledger.Flawed} {
		r := newRun(10, 10)
		require.Equal(t, did, r.admit(&r.layer, ledger.Call{Use: cost, Currency: currency}).Did)
	}
	r := newRun(10, 10, 10)
	require.Equal(t, ledger.Flawed, r.admit(&r.layer, ledger.Call{Use: cost, Currency: "USD"}).Did, "a scope has none")
	var none run
	none.OpenSession(&none.session, verdict.NewSpend(nil, false), "")
	none.AddLimits(nil, "EUR")
	o := none.admit(&none.session, ledger.Call{Use: cost, Currency: "USD"})
	require.Equal(t, ledger.Flawed, o.Did, "it has the scope's")
	r = newRun(10, 10)
	charge := r.admit(&r.layer, ledger.Call{Use: requests(1)})
	o = ledger.Outcome{}
	r.Settle(charge.ID, &cost, "USD", &o)
	require.Equal(t, "its Cost is in USD, and the run counts EUR", o.Why.Flaw)
	r.requireAdmitted(t, 1, 1)
}

// TestTakeBack protects a refused call from a limit that was extended meanwhile.
func TestTakeBack(t *testing.T) {
	r := newRun(10, 100)
	o := r.admit(&r.layer, ledger.Call{Use: requests(11)})
	require.True(t, o.Look)
	require.EqualValues(t, 1, r.session.Spend.Counts[0].Refused)
	require.False(t, o.TakeBack())
	require.EqualValues(t, 1, r.session.Spend.Counts[0].Refused)
	r.session.Spend.Extend(0, 1)
	require.True(t, o.TakeBack())
	require.Zero(t, r.session.Spend.Counts[0].Refused, "it was none")
	require.Equal(t, ledger.Charged, r.admit(&r.layer, ledger.Call{Use: requests(11)}).Did)
	r.session.Spend.ObserveOnly = true
	require.Equal(t, ledger.Charged, r.admit(&r.session, ledger.Call{Use: requests(1)}).Did, "it is only noted")
	require.EqualValues(t, 1, r.session.Spend.Counts[0].Refused)
}

// TestSettleLate protects what a call used beyond its admission after the end: it is owed, and whoever settles again
// hears of it.
func TestSettleLate(t *testing.T) {
	r := newRun(1000, 1000, 1000)
	r.grant(t, 0, 10, "", verdict.Never)
	charge, other := r.admit(&r.session, ledger.Call{Use: requests(3)}), r.admit(&r.session, ledger.Call{Use: requests(1)})
	r.session.Close()
	r.shared[0].Close()
	require.False(t, r.settle(other.ID, 1).Late)
	require.Equal(t, requests(6).Counts, returned(r.shared[0].Returns()))
	require.False(t, r.Owing())
	require.True(t, r.settle(charge.ID, 6).Late)
	require.True(t, r.Owing())
	require.Equal(t, requests(3).Counts, r.shared[0].Owed())
	require.Equal(t, ledger.Outcome{Late: true}, r.settle(charge.ID, 6), "it is over, and not paid")
	r.grant(t, 0, 3, "", verdict.Never)
	require.False(t, r.Owing())
	require.Equal(t, ledger.Outcome{}, r.settle(charge.ID, 6))
}

// TestRange protects calls that are made as large as fits, and that wait for others which may give something back.
func TestRange(t *testing.T) {
	for _, c := range []struct {
		limit, open int64
		late        bool
		did         ledger.Did
		use         int64
	}{
		{10, 0, false, ledger.Charged, 8},
		{10, 6, false, ledger.Charged, 4},
		{10, 8, false, ledger.Charged, 2}, // a quarter of its steps is enough
		{10, 9, false, ledger.Held, 1},
		{10, 9, true, ledger.Charged, 1},
		{10, 10, true, ledger.Held, 1},
		{1, 0, false, ledger.Charged, 1},
		{1, 1, false, ledger.Held, 1},
	} {
		r := newRun(c.limit, 100)
		if c.open > 0 {
			require.Equal(t, ledger.Charged, r.admit(&r.session, ledger.Call{Use: requests(c.open)}).Did)
		}
		call, o := ledger.Call{Range: &ledger.Range{Waits: true, Late: c.late}}, ledger.Outcome{}
		call.Range.Least, call.Range.Most = requests(1), requests(8)
		call.Again()
		r.layer.Admit(&call, &o)
		require.Equal(t, c.did, o.Did, "%+v", c)
		require.Equal(t, requests(c.use), call.Use, "%+v", c)
	}
	plain := ledger.Call{Owes: true}
	plain.Again()
	require.False(t, plain.Owes)
}

// TestOwnSource protects limits of a session's own that a store keeps, whatever their place.
func TestOwnSource(t *testing.T) {
	limits := []verdict.CountLimit{
		{CountID: verdict.CountID{Kind: verdict.KindInput}, Max: 10, Reserve: 4},
		{CountID: verdict.CountID{Kind: verdict.KindTurns}, Max: 10},
		{CountID: verdict.CountID{Kind: verdict.KindCallInput}, Max: 9},
	}
	for _, observed := range []bool{false, true} {
		var r run
		r.OpenSession(&r.session, verdict.NewSpend(limits, observed), "")
		r.shared = []*ledger.Shared{{}}
		r.AddSource(r.shared[0], "", "")
		r.session.Spend.Counts[0].Steps = 1 // before the call
		use := func(n int64) verdict.Use { return verdict.Use{Counts: verdict.Counts{verdict.KindInput: n}} }
		call, o := ledger.Call{Use: use(1)}, ledger.Outcome{}
		r.session.Admit(&call, &o)
		require.Equal(t, ledger.Lacking, o.Did)
		want := r.Wants(&call, 0)
		require.EqualValues(t, 6, want.Limit[verdict.KindInput], "but for the reserve")
		require.EqualValues(t, verdict.Endless, want.Limit[verdict.KindTurns], "nothing is lacking of them")
		require.False(t, want.Force)
		_, _ = r.shared[0].Begin(0, "1", &want)
		r.shared[0].Granted(&ledger.Grant{
			Fits: true, Granted: use(10).Counts, Charged: use(20).Counts, Ends: verdict.Never, // others have the rest
		})
		r.session.Learn()
		require.EqualValues(t, 10, r.session.Spend.Counts[0].Around)
		call.Again()
		r.session.Admit(&call, &o)
		refused := r.session.Spend.Counts[0].Refused
		if observed {
			require.Equal(t, ledger.Charged, o.Did)
			require.True(t, o.Look)
			require.EqualValues(t, 1, refused, "it is only noted")
			large := ledger.Call{Use: use(20)}
			r.session.Admit(&large, &o)
			require.Equal(t, ledger.Lacking, o.Did)
			require.True(t, r.Wants(&large, 0).Force, "it will not fit")
			continue
		}
		require.Equal(t, ledger.Lacking, o.Did, "the store may have got something back")
		o = ledger.Outcome{}
		r.NotGranted(&call, 0, &o)
		require.Equal(t, ledger.Refused, o.Did)
		require.True(t, o.Look, "there was no trip meanwhile")
		require.Equal(t, refused+1, r.session.Spend.Counts[0].Refused)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWindows protects the windows of a shared limit from each other.
func TestWindows(t *testing.T) {
	t.Run("at its end a window goes on, and is over then", func(t *testing.T) {
		r := newRun(1000, 1000, 1000)
		r.grant(t, 0, 10, "1 h", time.Hour)
		s := r.shared[0]
		require.True(t, s.Timed())
		s.Turn(time.Hour - 1)
		require.True(t, s.Begun())
		s.Turn(time.Hour)
		require.False(t, s.Begun())
		require.False(t, s.Timed())
		all := s.Returns()
		require.Equal(t, []ledger.Return{{ID: "slice of 1 h", Unused: requests(10).Counts}}, all)
		require.Empty(t, s.Returns())
	})
	t.Run("once closed it matters what time it is as long as something can be owed of one that ends", func(t *testing.T) {
		for ends, timed := range map[time.Duration]bool{time.Hour: true, verdict.Never: false} {
			r := newRun(1000, 1000, 1000)
			r.grant(t, 0, 10, "", ends)
			r.shared[0].Close()
			require.Equal(t, timed, r.shared[0].Timed())
		}
	})
	t.Run("a charge stays in the window that it was admitted in", func(t *testing.T) {
		r := newRun(1000, 1000, 1000)
		r.grant(t, 0, 10, "1 h", time.Hour)
		charge := r.admit(&r.layer, ledger.Call{Use: requests(4)})
		r.shared[0].Turn(time.Hour)
		r.grant(t, 0, 10, "2 h", 2*time.Hour)
		require.False(t, r.settle(charge.ID, 3).Owes)
		require.Equal(t, requests(7).Counts, returned(r.shared[0].Returns()))
		r.session.Learn()
		require.Zero(t, r.session.Spend.Use(1).Used, "of the second")
	})
	t.Run("a grant of another window leaves the one before", func(t *testing.T) {
		r := newRun(1000, 1000, 1000)
		r.grant(t, 0, 10, "1 h", time.Hour)
		r.grant(t, 0, 20, "2 h", time.Hour)
		require.Equal(t, requests(10).Counts, returned(r.shared[0].Returns()))
		require.Empty(t, r.shared[0].Returns())
	})
	t.Run("what is granted of a window that is over is given back", func(t *testing.T) {
		r := newRun(1000, 1000, 1000)
		r.grant(t, 0, 10, "1 h", 0)
		require.False(t, r.shared[0].Begun())
		require.Equal(t, requests(10).Counts, returned(r.shared[0].Returns()))
	})
	t.Run("what is owed after the end is charged in its own window, and nowhere later", func(t *testing.T) {
		owes := func() *run {
			r := newRun(1000, 1000, 1000)
			r.grant(t, 0, 10, "1 h", time.Hour)
			charge := r.admit(&r.session, ledger.Call{Use: requests(4)})
			r.session.Close()
			r.shared[0].Close()
			r.shared[0].Returns()
			require.True(t, r.settle(charge.ID, 9).Late)
			return r
		}
		for name, c := range map[string]struct {
			happens func(r *run)
			owes    int64
			back    int64
		}{
			"the window goes on":                      {func(r *run) { r.shared[0].Turn(time.Hour - 1) }, 5, 0},
			"it is over by the clock":                 {func(r *run) { r.shared[0].Turn(time.Hour) }, 0, 0},
			"it is charged":                           {func(r *run) { r.grant(t, 0, 5, "1 h", time.Minute) }, 0, 0},
			"the store charged the next":              {func(r *run) { r.grant(t, 0, 5, "2 h", time.Hour) }, 0, 5},
			"the store says that it is over":          {func(r *run) { r.grant(t, 0, 5, "1 h", 0) }, 0, 5},
			"the answer is of a window before, by it": {func(r *run) { r.grant(t, 0, 5, "0 h", 0) }, 5, 5},
		} {
			t.Run(name, func(t *testing.T) {
				r := owes()
				c.happens(r)
				require.Equal(t, requests(c.owes).Counts, r.shared[0].Owed())
				require.Equal(t, requests(c.back).Counts, returned(r.shared[0].Returns()))
			})
		}
	})
}

// TestTake protects a shared limit from two slices at a time, and from forgetting one whose answer was lost.
func TestTake(t *testing.T) {
	var s ledger.Shared
	none, begun := s.Begin(0, "0", nil)
	require.Nil(t, none, "nothing is owed")
	require.False(t, begun)
	want := &ledger.Slice{Least: requests(5).Counts}
	first, begun := s.Begin(0, "1", want)
	require.True(t, begun)
	other, begun := s.Begin(0, "2", want)
	require.False(t, begun)
	require.Same(t, first, other)
	require.False(t, s.Closed())

	s.NotGranted(true)
	again, begun := s.Begin(0, "3", nil)
	require.True(t, begun, "also for who wants nothing")
	require.True(t, again.Again)
	require.Equal(t, "1", again.ID)
	s.NotGranted(false)
	none, _ = s.Begin(0, "4", nil)
	require.Nil(t, none, "the store has not charged it")
	require.Nil(t, s.Close())

	_, _ = s.Begin(0, "5", want)
	s.NotGranted(true)
	require.Equal(t, "5", s.Close().ID)
	require.True(t, s.Closed())
}

// TestCover protects a store from being asked twice for what is owed, and a host from waiting for it after the end.
func TestCover(t *testing.T) {
	r := newRun(1000, 1000, 1000)
	s := r.shared[0]
	require.False(t, s.BeginCover())
	r.grant(t, 0, 5, "", verdict.Never)
	charge := r.admit(&r.session, ledger.Call{Use: requests(5)})
	require.Equal(t, ledger.Outcome{Did: ledger.Settled, Owes: true}, r.settle(charge.ID, 8))
	require.True(t, s.BeginCover())
	require.False(t, s.BeginCover())
	s.EndCover()
	owed, begun := s.Begin(0, "6", nil)
	require.True(t, begun)
	require.True(t, owed.Force)
	require.Equal(t, requests(3).Counts, owed.Least)
	s.Close()
	require.False(t, s.BeginCover())
}

// TestResize protects a call that is made smaller for what the store has left, again and again, and waits where it can.
func TestResize(t *testing.T) {
	r := newRun(1000, 1000, 10)
	call, o := ledger.Call{Range: &ledger.Range{}}, ledger.Outcome{}
	call.Range.Least, call.Range.Most = requests(1), requests(8)
	// lacks has the store say that the call does not fit beside that much.
	lacks := func(most, charged int64) {
		r.layer.Admit(&call, &o)
		require.Equal(t, ledger.Lacking, o.Did)
		require.Equal(t, requests(most), call.Use)
		want := r.Wants(&call, 0)
		_, _ = r.shared[0].Begin(0, "1", &want)
		r.shared[0].Granted(&ledger.Grant{Charged: requests(charged).Counts, Ends: verdict.Never})
		o = ledger.Outcome{}
		r.NotGranted(&call, 0, &o)
	}
	lacks(8, 7)
	lacks(3, 9)
	require.Equal(t, ledger.Nothing, o.Did, "it is made again")
	lacks(1, 10)
	require.Equal(t, ledger.Refused, o.Did)

	r = newRun(1000, 1000, 10)
	r.grant(t, 0, 5, "", verdict.Never)
	require.Equal(t, ledger.Charged, r.admit(&r.session, ledger.Call{Use: requests(5)}).Did)
	call.Again()
	call.Range.Waits = true
	lacks(8, 10)
	require.Equal(t, ledger.Held, o.Did, "the other call may give something back")
}

// TestExceeded protects that a shared limit of which more was used than it allows is looked at, and none before.
func TestExceeded(t *testing.T) {
	for used, look := range map[int64]bool{4: false, 5: false, 6: true} {
		r := &run{shared: []*ledger.Shared{{}}}
		r.OpenSession(&r.session, verdict.NewSpend(nil, false), "")
		r.AddLimits([]verdict.CountLimit{limitOf("team", 5)}, "")
		r.AddSource(r.shared[0], "team", "")
		r.grant(t, 0, 5, "", verdict.Never)
		charge := r.admit(&r.session, ledger.Call{Use: requests(5)})
		require.Equal(t, look, r.settle(charge.ID, used).Look, used)
	}
}

// TestNotGranted protects a run from many calls that wait for a slice together: they are one trip, and none if the
// limit was extended meanwhile.
func TestNotGranted(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile      func(s *verdict.Spend)
		look, takeBack bool
	}{
		"nothing happened":        {func(*verdict.Spend) {}, true, false},
		"it was extended":         {func(s *verdict.Spend) { s.Extend(1, 100) }, false, true},
		"another call was a trip": {func(s *verdict.Spend) { s.Counts[1].Steps++ }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(1000, 1000, 10)
			call := ledger.Call{Use: requests(20)}
			require.Equal(t, ledger.Lacking, r.admit(&r.layer, call).Did)
			var o ledger.Outcome
			r.layer.Admit(&call, &o)
			want := r.Wants(&call, o.Why.Source)
			require.Equal(t, ledger.Slice{Least: requests(20).Counts, Limit: want.Limit}, want)
			require.EqualValues(t, 10, want.Limit[verdict.KindRequests])
			require.EqualValues(t, verdict.Endless, want.Limit[verdict.KindCost], "nothing of it is taken")
			c.meanwhile(r.session.Spend)
			o = ledger.Outcome{}
			r.NotGranted(&call, 0, &o)
			require.Equal(t, ledger.Refused, o.Did)
			require.Equal(t, c.look, o.Look)
			require.Equal(t, c.takeBack, o.TakeBack())
		})
	}
}

// TestTools protects the limit of one tool from the calls of others.
func TestTools(t *testing.T) {
	of := func(tool string, n int64) verdict.Use {
		return verdict.Use{Counts: verdict.Counts{verdict.KindToolCalls: n}, Tool: tool}
	}
	r := newRun(10, 10)
	limit := verdict.CountLimit{CountID: verdict.CountID{Kind: verdict.KindToolCalls, Tool: "rm", Scope: "team"}, Max: 10}
	r.AddLimits([]verdict.CountLimit{limit}, "")
	var s ledger.Shared
	r.AddSource(&s, "team", "rm")
	require.Equal(t, ledger.Charged, r.admit(&r.layer, ledger.Call{Use: of("ls", 9)}).Did)
	require.Equal(t, ledger.Lacking, r.admit(&r.layer, ledger.Call{Use: of("rm", 1)}).Did)
	_, _ = s.Begin(0, "1", &ledger.Slice{Least: of("rm", 5).Counts})
	s.Granted(&ledger.Grant{
		Fits: true, Granted: of("rm", 5).Counts, Charged: of("rm", 5).Counts, Window: "1 h", Ends: time.Hour,
	})
	charge := r.admit(&r.layer, ledger.Call{Use: of("rm", 5)})
	use := of("", 4)
	var o ledger.Outcome
	r.Settle(charge.ID, &use, "", &o)
	require.EqualValues(t, 4, r.session.Spend.Use(1).Used, "a call without a tool is of the one that it was admitted for")
	other := r.admit(&r.layer, ledger.Call{Use: of("ls", 1)})
	use = of("rm", 3)
	r.Settle(other.ID, &use, "", &o)
	require.Equal(t, of("rm", 2).Counts, s.Owed(), "it was another tool after all")
	r.session.Spend.Counts[1].Warned = 1
	s.Turn(time.Hour)
	r.session.Learn()
	require.Equal(t, verdict.Count{}, r.session.Spend.Counts[1], "another hour begins at nothing")
}
