package verdict_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// requests is a use of that many requests.
func requests(n int64) verdict.Use {
	return verdict.Use{Counts: verdict.Counts{verdict.KindRequests: n}}
}

// limitRequests are limits of so many requests, with that reserve.
func limitRequests(most, reserve int64, warnAt ...float64) verdict.Limits {
	return others(verdict.Limits{Counts: []verdict.CountLimit{
		{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: most, Reserve: reserve, WarnAt: warnAt},
	}})
}

// A spender asks what is due after each charge.
type spender struct {
	limits verdict.Limits
	seen   verdict.Snapshot
	open   map[int]verdict.Use // the calls that were admitted, by their serials
	serial int
}

func newSpender(limits verdict.Limits) *spender {
	return &spender{limits: limits, seen: verdict.Snapshot{
		Signs: &verdict.Signs{}, Spend: verdict.NewSpend(limits.Counts, false),
	}, open: map[int]verdict.Use{}}
}

// admit returns what an admission gives, in order.
func (s *spender) admit(n int64) []verdict.Verdict {
	return s.admitUse(requests(n))
}

func (s *spender) admitUse(most verdict.Use) []verdict.Verdict {
	s.serial++
	spend := s.seen.Spend
	i := spend.Admit(&most)
	if i >= 0 {
		if spend.Refused(i, &most); !spend.ObserveOnly {
			return s.due()
		}
		spend.AdmitAll(&most)
	}
	s.open[s.serial] = most
	return s.due()
}

// settle settles the last admission.
func (s *spender) settle(n int64) []verdict.Verdict { return s.settleCall(s.serial, n) }

func (s *spender) settleCall(serial int, n int64) []verdict.Verdict {
	return s.settleUse(serial, requests(n))
}

func (s *spender) settleUse(serial int, used verdict.Use) []verdict.Verdict {
	if most, open := s.open[serial]; open {
		s.seen.Spend.Settle(&most, &used)
		delete(s.open, serial)
	}
	return s.due()
}

func (s *spender) due() (all []verdict.Verdict) {
	for {
		v := verdict.Judge(s.limits, s.seen, time.Hour)
		if v.Action == verdict.Continue {
			return all
		}
		all = append(all, v)
		if v.Action == verdict.Cancel {
			return all
		}
		s.seen.Apply(v, time.Hour)
	}
}

func asked(all []verdict.Verdict) (directives []verdict.Directive) {
	for _, v := range all {
		directives = append(directives, v.Directive)
	}
	return directives
}

func TestSpend(t *testing.T) {
	t.Run("at the limit nothing is exceeded, one more is", func(t *testing.T) {
		s := newSpender(limitRequests(10, 0))
		require.Empty(t, s.admit(10))
		require.Empty(t, s.settle(10))
		v := s.admit(1)[0]
		require.Equal(t, verdict.Cancel, v.Action)
		require.Equal(t, verdict.Limit("requests"), v.Limit)
		require.Equal(t, verdict.CountUse{
			CountID: verdict.CountID{Kind: verdict.KindRequests}, Used: 10, Allowed: 10, Needed: 1,
		}, v.Count)
		require.Equal(t, verdict.Never, v.Next)
	})
	t.Run("what is used above the admission trips", func(t *testing.T) {
		s := newSpender(limitRequests(10, 0))
		require.Empty(t, s.admit(3))
		require.Empty(t, s.admit(1))
		excess := s.settle(11)
		require.Equal(t, []verdict.Directive{verdict.DirectCancel}, asked(excess))
		require.EqualValues(t, 3, excess[0].Count.Admitted, "by the other call")
	})
	t.Run("an excess comes before the wrap-up", func(t *testing.T) {
		s := newSpender(limitRequests(10, 4))
		require.Empty(t, s.admit(1))
		require.Equal(t, []verdict.Directive{verdict.DirectCancel}, asked(s.settle(11)))
	})
	t.Run("of another limit it comes before that, too, and before a warning", func(t *testing.T) {
		limits := limitRequests(10, 4, 0.5)
		limits.Counts = append(limits.Counts, verdict.CountLimit{CountID: verdict.CountID{Kind: verdict.KindTurns}, Max: 10})
		s := newSpender(limits)
		s.seen.Spend.ObserveOnly = true
		use := verdict.Use{Counts: verdict.Counts{verdict.KindRequests: 7, verdict.KindTurns: 11}}
		s.seen.Spend.Settle(&verdict.Use{}, &use)
		excess := verdict.Judge(limits, s.seen, time.Hour)
		require.Equal(t, verdict.Limit("turns"), excess.Limit)
		s.seen.Apply(excess, time.Hour)
		require.Equal(t, []verdict.Directive{"", verdict.DirectWrapUp}, asked(s.due()))
	})
	t.Run("each fraction warns once, again after an extension", func(t *testing.T) {
		s := newSpender(limitRequests(10, 0, 0.5, 0.8))
		require.Empty(t, s.admit(9))
		warnings := s.settle(9)
		require.Len(t, warnings, 2)
		require.InDelta(t, 0.5, warnings[0].Fraction, 0)
		require.InDelta(t, 0.8, warnings[1].Fraction, 0)
		require.Empty(t, s.due())
		s.seen.Spend.Extend(0, 2)
		require.Len(t, s.due(), 1, "9 of 12 are more than a half")
	})
	t.Run("a ladder takes a rung for each refusal, and a last wait is the last", func(t *testing.T) {
		limits := limitRequests(10, 0)
		limits.Ladders = verdict.Ladders{"requests": []verdict.Directive{verdict.DirectUnstick, verdict.DirectWait}}
		s := newSpender(limits)
		require.Equal(t, []verdict.Directive{verdict.DirectUnstick}, asked(s.admit(11)))
		require.Equal(t, []verdict.Directive{verdict.DirectWait}, asked(s.admit(11)))
		require.Empty(t, s.admit(11))
		s.seen.Spend.Counts[0].Rung.Last = false
		s.seen.Signs.Signal(true, 2*time.Hour)
		require.Equal(t, 1, s.admit(11)[0].Rung, "progress puts it back")
	})
	t.Run("a limit of time that was exceeded before is named", func(t *testing.T) {
		limits := limitRequests(10, 0)
		limits.WallClock = time.Minute
		require.Equal(t, verdict.WallClock, newSpender(limits).admit(11)[0].Limit)
	})
	t.Run("an observed run is told once, and refuses nothing", func(t *testing.T) {
		s := newSpender(limitRequests(10, 0))
		s.seen.Spend.ObserveOnly = true
		first := s.admit(11)
		require.Equal(t, []verdict.Directive{verdict.DirectCancel}, asked(first))
		s.seen.Apply(first[0], time.Hour)
		require.Zero(t, first[0].Count.Admitted, "when it did not fit")
		require.Empty(t, s.admit(11))
		require.EqualValues(t, 22, s.seen.Spend.Counts[0].Admitted.Count())
	})
}

// TestAdmit protects the check that a run makes by itself: at the limit a call fits, one above it does not, and then
// nothing is charged, in no limit.
func TestAdmit(t *testing.T) {
	s := verdict.NewSpend([]verdict.CountLimit{
		{CountID: verdict.CountID{Kind: verdict.KindTurns}, Max: 100},
		{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: 10, Reserve: 2},
		{CountID: verdict.CountID{Kind: verdict.KindCallInput}, Max: 5},
	}, false)
	use := func(turns, requests, input int64) *verdict.Use {
		return &verdict.Use{Counts: verdict.Counts{
			verdict.KindTurns: turns, verdict.KindRequests: requests, verdict.KindInput: input,
		}}
	}
	require.Equal(t, -1, s.Admit(use(1, 7, 5)))
	require.Equal(t, 1, s.Admit(use(1, 2, 0)), "beside what is open, less the reserve")
	require.Equal(t, 2, s.Admit(use(1, 1, 6)))
	require.EqualValues(t, 1, s.Counts[0].Admitted.Count())
	require.EqualValues(t, 7, s.Counts[1].Admitted.Count())
	require.Zero(t, s.Counts[2].Admitted.Count(), "it does not add up")
	require.Equal(t, -1, s.Admit(use(1, 1, 0)))
	require.Equal(t, 1, s.Admit(use(0, 1, 0)))
	s.Void(use(1, 7, 5))
	require.Equal(t, -1, s.Admit(use(1, 7, 0)))
}

// TestRows protects that errors and retries are counted in rows of their own.
func TestRows(t *testing.T) {
	ok, failed, retry := verdict.ResultOK, verdict.ResultError, verdict.ResultRetry
	limits := others(verdict.Limits{Counts: []verdict.CountLimit{
		{CountID: verdict.CountID{Kind: verdict.KindErrors}, Max: 2},
		{CountID: verdict.CountID{Kind: verdict.KindRetries}, Max: 3},
	}})
	for name, c := range map[string]struct {
		results []verdict.Result
		trips   verdict.Kind
	}{
		"three errors in a row":           {[]verdict.Result{failed, failed, failed}, verdict.KindErrors},
		"a success between":               {[]verdict.Result{failed, failed, ok, failed, failed}, -1},
		"a retry between ends no row":     {[]verdict.Result{failed, retry, failed, retry, failed}, verdict.KindErrors},
		"four retries":                    {[]verdict.Result{retry, retry, retry, retry}, verdict.KindRetries},
		"a call without a result between": {[]verdict.Result{failed, failed, "", failed}, verdict.KindErrors},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpender(limits)
			tripped := verdict.Kind(-1)
			for i, result := range c.results {
				s.admit(0)
				for _, v := range s.settleUse(s.serial, verdict.Use{Result: result}) {
					require.Equal(t, len(c.results)-1, i)
					require.Equal(t, verdict.Limit("errors"), v.Limit)
					tripped = v.Count.Kind
				}
			}
			require.Equal(t, c.trips, tripped)
		})
	}
}

// naiveSpend is the rule as one would explain it: a list of all calls, added up anew each time.
type naiveSpend struct {
	max, reserve int64
	wrapped      bool
	calls        map[int][2]int64 // the most, and what was used; -1 while open
}

func (n *naiveSpend) charged() (total int64) {
	for _, c := range n.calls {
		if c[1] < 0 {
			total += c[0]
		} else {
			total += c[1]
		}
	}
	return total
}

// open returns the limit that counts now.
func (n *naiveSpend) open() int64 {
	if n.wrapped {
		return n.max
	}
	return n.max - n.reserve
}

// admit returns what an admission gives, and whether the call is made.
func (n *naiveSpend) admit(serial int, most int64) (asks []verdict.Directive, made bool) {
	switch {
	case n.charged()+most <= n.open():
		n.calls[serial] = [2]int64{most, -1}
		return nil, true
	case n.reserve > 0 && !n.wrapped:
		n.wrapped = true
		return []verdict.Directive{verdict.DirectWrapUp}, false
	}
	return []verdict.Directive{verdict.DirectCancel}, false
}

// settle returns what the settling gives.
func (n *naiveSpend) settle(serial int, used int64) (asks []verdict.Directive) {
	n.calls[serial] = [2]int64{n.calls[serial][0], used}
	settled := int64(0)
	for _, c := range n.calls {
		settled += max(c[1], 0)
	}
	if n.reserve > 0 && !n.wrapped && settled >= n.open() && used > 0 {
		n.wrapped = true
		return []verdict.Directive{verdict.DirectWrapUp}
	}
	return nil
}

// TestSpendModel compares random charges with the rule.
func TestSpendModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](2_000, 60_000) {
		rng := rand.New(rand.NewPCG(seed, 14))
		n := &naiveSpend{max: rng.Int64N(30) + 2, calls: map[int][2]int64{}}
		n.reserve = rng.Int64N(n.max)
		s := newSpender(limitRequests(n.max, n.reserve))
		var open []int
		for ended := false; !ended && s.serial < 40; {
			if len(open) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(open))
				serial := open[i]
				open = slices.Delete(open, i, i+1)
				used := rng.Int64N(n.calls[serial][0] + 1)
				require.Equal(t, n.settle(serial, used), asked(s.settleCall(serial, used)), "seed %d", seed)
				continue
			}
			most := rng.Int64N(6) + 1
			given := s.admit(most)
			asks, made := n.admit(s.serial, most)
			require.Equal(t, asks, asked(given), "seed %d", seed)
			if made {
				open = append(open, s.serial)
			}
			require.Equal(t, n.charged(), s.seen.Spend.Counts[0].Used+s.seen.Spend.Counts[0].Admitted.Count(), "seed %d", seed)
			ended = slices.Contains(asks, verdict.DirectCancel)
		}
	}
}

// TestRowWarns protects that a row of errors is warned of at once, like what adds up.
func TestRowWarns(t *testing.T) {
	s := verdict.NewSpend([]verdict.CountLimit{{
		CountID: verdict.CountID{Kind: verdict.KindErrors}, Max: 4, WarnAt: []float64{0.5},
	}}, false)
	failed := verdict.Use{Result: verdict.ResultError}
	require.False(t, s.Settle(&verdict.Use{}, &failed))
	require.True(t, s.Settle(&verdict.Use{}, &failed))
	limits := verdict.Limits{WallClock: verdict.Never, Safety: verdict.Never}
	require.Equal(t, verdict.Warn, verdict.Judge(limits, verdict.Snapshot{Spend: s}, 0).Action)
}

// TestSpendDue protects the settle that reaches a bound exactly: it has the run looked at, and none before it does.
func TestSpendDue(t *testing.T) {
	for name, limit := range map[string]verdict.CountLimit{
		"a warning":   {Max: 10, WarnAt: []float64{0.6}},
		"the reserve": {Max: 10, Reserve: 4},
	} {
		t.Run(name, func(t *testing.T) {
			limit.Kind = verdict.KindRequests
			s := verdict.NewSpend([]verdict.CountLimit{limit}, false)
			one := verdict.Use{}
			one.Counts[verdict.KindRequests] = 1
			for n := range 6 {
				require.Negative(t, s.Admit(&one))
				require.Equal(t, n == 5, s.Settle(&one, &one), n)
			}
			require.False(t, s.Settle(&verdict.Use{}, &verdict.Use{}), "nothing more was used")
		})
	}
}

// TestLook protects what else has a run looked at: a call that was too large, one that does not fit.
func TestLook(t *testing.T) {
	s := verdict.NewSpend([]verdict.CountLimit{
		{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: 10, Reserve: 4},
		{CountID: verdict.CountID{Kind: verdict.KindCallInput}, Max: 5},
	}, false)
	one := requests(1)
	require.False(t, s.Settle(&verdict.Use{}, &one))
	for input, look := range map[int64]bool{5: false, 6: true} {
		s.Counts[1] = verdict.Count{}
		use := verdict.Use{Counts: verdict.Counts{verdict.KindInput: input}}
		require.Equal(t, look, s.Settle(&verdict.Use{}, &use))
	}
	for range 2 {
		require.True(t, s.Refused(0, &one), "until it was looked at")
	}
	s.Extend(0, 1)
	s.Counts[0].Spent = true
	require.False(t, s.Refused(0, &one), "it was told")
}

// TestMost protects the limits of one tool from what they do not limit.
func TestMost(t *testing.T) {
	limit := func(tool string) verdict.CountLimit {
		return verdict.CountLimit{CountID: verdict.CountID{Kind: verdict.KindToolCalls, Tool: tool}, Max: 9}
	}
	for tool, want := range map[string][2]int64{"rm": {2, 2}, "ls": {2, 0}} {
		limits := []verdict.CountLimit{limit(""), limit("rm")}
		s := verdict.NewSpend(limits, false)
		s.AdmitAll(&verdict.Use{Counts: verdict.Counts{verdict.KindToolCalls: 2}, Tool: tool})
		for i, n := range want {
			require.Equal(t, n, s.Counts[i].Admitted.Count(), "%s, %d", tool, i)
		}
	}
}

// TestSpent protects what was used before the attach.
func TestSpent(t *testing.T) {
	t.Run("a call does not fit beside what was used before", func(t *testing.T) {
		limits := limitRequests(10, 0)
		limits.Counts[0].Used = 8
		s := newSpender(limits)
		require.Empty(t, s.admit(2))
		require.Equal(t, []verdict.Directive{verdict.DirectCancel}, asked(s.admit(1)))
	})
	t.Run("a call whose input is too large does not fit", func(t *testing.T) {
		s := newSpender(others(verdict.Limits{Counts: []verdict.CountLimit{
			{CountID: verdict.CountID{Kind: verdict.KindCallInput}, Max: 5},
		}}))
		use := verdict.Use{Counts: verdict.Counts{verdict.KindInput: 6}}
		require.Equal(t, []verdict.Directive{verdict.DirectCancel}, asked(s.admitUse(use)))
	})
}

func TestSumOfCounts(t *testing.T) {
	require.EqualValues(t, 7, verdict.AddCount(3, 4))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(verdict.Endless-3, 3))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(verdict.Endless-3, 4))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(4, verdict.Endless-3))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(verdict.Endless, verdict.Endless))
	require.Equal(t, verdict.KindTurns, verdict.KindOf("turns"))
	require.EqualValues(t, -1, verdict.KindOf("moons"))
}

func TestTokensTogether(t *testing.T) {
	for _, test := range []struct{ in, out, want int64 }{{3, 4, 7}, {0, 0, 0}, {verdict.Endless, 1, verdict.Endless}} {
		got := verdict.Counts{verdict.KindInput: test.in, verdict.KindOutput: test.out, verdict.KindTokens: 9, verdict.KindTurns: 1}
		got.SumTokens()
		want := verdict.Counts{verdict.KindInput: test.in, verdict.KindOutput: test.out, verdict.KindTokens: test.want, verdict.KindTurns: 1}
		require.Equal(t, want, got)
	}
}

func TestFits(t *testing.T) {
	for _, test := range []struct {
		about             string
		more, limit, used int64
		fits              bool
	}{
		{"at the limit", 40, 100, 60, true},
		{"one more", 41, 100, 60, false},
		{"nothing, above the limit", 0, 100, 150, true},
		{"one, above the limit", 1, 100, 150, false},
		{"nothing in nothing", 0, 0, 0, true},
		{"one in nothing", 1, 0, 0, false},
		{"much without a limit", math.MaxInt64, verdict.Endless, math.MaxInt64, true},
		{"more than a number holds", math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64, false},
		{"a sum that would be negative", math.MaxInt64 - 1, math.MaxInt64 - 1, 2, false},
	} {
		require.Equal(t, test.fits, verdict.Fits(test.more, test.limit, test.used), test.about)
	}
}

// TestTally compares a tally with a number that has no end.
func TestTally(t *testing.T) {
	most := big.NewInt(math.MaxInt64)
	numbers := []int64{0, 1, 2, 1 << 62, math.MaxInt64 - 1, math.MaxInt64, -1, -math.MaxInt64}
	for range 200 {
		var tally verdict.Tally
		sum := new(big.Int)
		for range 50 {
			n := numbers[rand.IntN(len(numbers))]
			if rand.IntN(2) == 0 {
				tally.Add(n)
				sum.Add(sum, big.NewInt(n))
			} else {
				tally.Sub(n)
				sum.Sub(sum, big.NewInt(n))
			}
			want := new(big.Int).Set(sum)
			if want.CmpAbs(most) > 0 {
				want.Mul(most, big.NewInt(int64(sum.Sign())))
			}
			require.Equal(t, want.Int64(), tally.Count())
		}
	}
}
