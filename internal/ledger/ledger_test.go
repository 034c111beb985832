package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A run is a session with a layer, of which each has a limit of requests.
type run struct {
	ledger.Ledger
	session, layer ledger.Account
}

func newRun(session, layer int64) *run {
	limitOf := func(most int64) *verdict.Spend {
		return verdict.NewSpend([]verdict.CountLimit{
			{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: most},
		}, false)
	}
	r := &run{}
	r.OpenSession(&r.session, limitOf(session), "EUR")
	r.OpenLayer(&r.layer, &r.session, limitOf(layer), "")
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

func (r *run) requireAdmitted(t *testing.T, session, layer int64) {
	t.Helper()
	require.Equal(t, session, r.session.Spend.Use(0).Admitted, "the session")
	require.Equal(t, layer, r.layer.Spend.Use(0).Admitted, "the layer")
}

// TestAdmitAll protects runs from a call that is charged to some of them only.
func TestAdmitAll(t *testing.T) {
	for name, c := range map[string]struct {
		of  func() *run
		use int64
		did ledger.Did
		why func(r *run) ledger.Why
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
	require.NotEqual(t, first.ID, second.ID)
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
	r := newRun(10, 10)
	charge := r.admit(&r.layer, ledger.Call{Use: requests(1)})
	var o ledger.Outcome
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

// TestTool protects a call that does not say of which tool it was: it is of the one that it was admitted for.
func TestTool(t *testing.T) {
	var r run
	r.OpenSession(&r.session, verdict.NewSpend([]verdict.CountLimit{
		{CountID: verdict.CountID{Kind: verdict.KindToolCalls, Tool: "rm"}, Max: 100},
	}, false), "")
	of := func(tool string, n int64) verdict.Use {
		return verdict.Use{Counts: verdict.Counts{verdict.KindToolCalls: n}, Tool: tool}
	}
	for _, used := range []string{"", "rm", "ls"} {
		charge := r.admit(&r.session, ledger.Call{Use: of("rm", 5)})
		use, o := of(used, 4), ledger.Outcome{}
		r.Settle(charge.ID, &use, "", &o)
		require.Equal(t, ledger.Settled, o.Did)
	}
	require.EqualValues(t, 8, r.session.Spend.Use(0).Used)
}

// A call is one that was admitted, of the layer or of the session.
type call struct {
	id      ledger.ID
	ofLayer bool
	most    int64
}

// TestModel compares random calls of a session and its layer with sums: each is charged to all around it or to none, no
// limit is exceeded by more than what was used beyond admissions, and no call is refused that fits.
func TestModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](1_000, 50_000) {
		rng := rand.New(rand.NewPCG(seed, 23))
		limits := [2]int64{rng.Int64N(600) + 1, rng.Int64N(600) + 1}
		r := newRun(limits[0], limits[1])
		var open []call
		var used, admitted, beyond [2]int64
		add := func(sum *[2]int64, ofLayer bool, n int64) {
			if sum[0] += n; ofLayer {
				sum[1] += n
			}
		}
		for range 60 {
			if len(open) == 0 || rng.IntN(2) == 0 {
				c := call{ofLayer: rng.IntN(2) == 0, most: rng.Int64N(limits[0]/3+2) + 1}
				of := &r.session
				if c.ofLayer {
					of = &r.layer
				}
				o := r.admit(of, ledger.Call{Use: requests(c.most)})
				fits := used[0]+admitted[0]+c.most <= limits[0] && (!c.ofLayer || used[1]+admitted[1]+c.most <= limits[1])
				require.Equal(t, fits, o.Did == ledger.Charged, "seed %d", seed)
				if c.id = o.ID; fits {
					open = append(open, c)
					add(&admitted, c.ofLayer, c.most)
				}
			} else {
				i := rng.IntN(len(open))
				c := open[i]
				open = slices.Delete(open, i, i+1)
				add(&admitted, c.ofLayer, -c.most)
				if n := rng.Int64N(c.most + c.most/2 + 1); rng.IntN(5) == 0 {
					require.True(t, r.Void(c.id))
					require.False(t, r.Void(c.id))
				} else {
					require.Equal(t, ledger.Settled, r.settle(c.id, n).Did)
					require.Equal(t, ledger.Nothing, r.settle(c.id, n).Did)
					add(&used, c.ofLayer, n)
					add(&beyond, c.ofLayer, max(n-c.most, 0))
				}
			}
			r.requireAdmitted(t, admitted[0], admitted[1])
			for i, a := range []*ledger.Account{&r.session, &r.layer} {
				require.Equal(t, used[i], a.Spend.Use(0).Used, "seed %d", seed)
				require.LessOrEqual(t, used[i]+admitted[i], limits[i]+beyond[i], "seed %d", seed)
			}
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
