package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

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
