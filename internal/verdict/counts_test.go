package verdict_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestSumOfCounts(t *testing.T) {
	require.EqualValues(t, 7, verdict.AddCount(3, 4))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(verdict.Endless-3, 3))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(verdict.Endless-3, 4))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(4, verdict.Endless-3))
	require.EqualValues(t, verdict.Endless, verdict.AddCount(verdict.Endless, verdict.Endless))
	require.EqualValues(t, -1, verdict.SubCount(3, 4))
	require.EqualValues(t, -verdict.Endless, verdict.SubCount(0, verdict.Endless))
	require.EqualValues(t, verdict.Endless, verdict.SubCount(verdict.Endless, 4), "it may be the sum of more")
	c := verdict.Counts{5, 3, -verdict.Endless, verdict.Endless}
	c.Sub(&verdict.Counts{3, 5, 2, -1})
	require.Equal(t, verdict.Counts{2, -2, -verdict.Endless, verdict.Endless}, c)
	require.Equal(t, verdict.KindTurns, verdict.KindOf("turns"))
	require.EqualValues(t, -1, verdict.KindOf("moons"))
}

// TestRange protects what a call can be made that can be made smaller.
func TestRange(t *testing.T) {
	use := func(in, out, cost, tokens int64) verdict.Use {
		return verdict.Use{Counts: verdict.Counts{
			verdict.KindInput: in, verdict.KindOutput: out, verdict.KindCost: cost, verdict.KindTokens: tokens,
		}}
	}
	r := verdict.Range{Least: use(10, 1, 3, 0), Most: use(10, 101, 53, 0)}
	require.EqualValues(t, 100, r.Steps())
	for step, want := range map[int64]verdict.Use{
		verdict.NoStep: r.Least, 0: r.Least, 1: use(10, 2, 4, 12), 33: use(10, 34, 20, 44), 100: use(10, 101, 53, 111),
	} {
		require.Equal(t, want, r.At(step), step)
	}
	for _, c := range []struct{ room, least, most, want int64 }{
		{5, 6, 10, verdict.NoStep}, {6, 6, 10, 0}, {6, 4, 10, 33}, {10, 4, 10, 100}, {5, 5, 5, 100},
		{3, 0, 10, 30}, {-1, 0, 10, 0}, {-1, 0, 0, 100}, {0, 0, 10, 0},
	} {
		require.Equal(t, c.want, r.Step(c.room, c.least, c.most), "%+v", c)
	}
	require.EqualValues(t, verdict.Endless, verdict.Room(verdict.Endless, 5))
	require.EqualValues(t, 7, verdict.Room(10, 3))
	s := verdict.NewSpend([]verdict.CountLimit{
		{CountID: verdict.CountID{Kind: verdict.KindOutput}, Max: 60},
		{CountID: verdict.CountID{Kind: verdict.KindCallInput}, Max: 10},
	}, false)
	other := use(10, 10, 0, 0)
	require.Negative(t, s.Admit(&other))
	now, free := s.Step(&r)
	require.Equal(t, []int64{49, 59}, []int64{now, free}, "beside the open call, and if that used nothing")
	s.Limits[1].Max = 9
	now, free = s.Step(&r)
	require.Equal(t, []int64{verdict.NoStep, verdict.NoStep}, []int64{now, free})
	s.ObserveOnly = true
	now, free = s.Step(&r)
	require.Equal(t, []int64{100, 100}, []int64{now, free})
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

func TestSliceOf(t *testing.T) {
	for _, test := range []struct {
		about              string
		least, limit, used int64
		want               int64
	}{
		{"a share of what is left", 10, 6400, 0, 100},
		{"a share that is floored", 10, 6400, 100, 98},
		{"what is needed, if that is more", 1000, 6400, 0, 1000},
		{"nothing of too little for a share", 0, 63, 0, 0},
		{"one of just enough", 0, 64, 0, 1},
		{"what is needed, above the limit", 5, 100, 10_000, 5},
		{"nothing, above the limit", 0, 100, math.MaxInt64, 0},
		{"what is needed, without a limit", 5, verdict.Endless, 1000, 5},
		{"a share of the largest limit", 1, math.MaxInt64 - 1, 0, (math.MaxInt64 - 1) / 64},
	} {
		require.Equal(t, test.want, verdict.SliceOf(test.least, test.limit, test.used), test.about)
	}
}

func TestPeriod(t *testing.T) {
	const layout = "2006-01-02 15:04:05"
	for _, test := range []struct{ about, zone, name, now, begins, ends string }{
		{"an hour", "UTC", "hour", "2026-03-04 12:34:56", "2026-03-04 12:00:00", "2026-03-04 13:00:00"},
		{"the instant of its beginning", "UTC", "hour", "2026-03-04 12:00:00", "2026-03-04 12:00:00", "2026-03-04 13:00:00"},
		{"a day", "UTC", "day", "2026-03-04 12:34:56", "2026-03-04 00:00:00", "2026-03-05 00:00:00"},
		{"the last day of a year", "UTC", "day", "2025-12-31 23:59:59", "2025-12-31 00:00:00", "2026-01-01 00:00:00"},
		{"a leap day", "UTC", "day", "2028-02-29 23:59:59", "2028-02-29 00:00:00", "2028-03-01 00:00:00"},
		{"a month", "UTC", "month", "2026-01-31 12:00:00", "2026-01-01 00:00:00", "2026-02-01 00:00:00"},
		{"a December", "UTC", "month", "2026-12-31 12:00:00", "2026-12-01 00:00:00", "2027-01-01 00:00:00"},
		{"half an hour from UTC", "Asia/Kolkata", "hour", "2026-03-04 12:34:00", "2026-03-04 12:30:00", "2026-03-04 13:30:00"},
		{"a day there", "Asia/Kolkata", "day", "2026-03-04 12:34:00", "2026-03-03 18:30:00", "2026-03-04 18:30:00"},
		{"45 minutes from UTC", "Asia/Kathmandu", "hour", "2026-03-04 12:14:59", "2026-03-04 11:15:00", "2026-03-04 12:15:00"},
		{"14 hours from UTC", "Pacific/Kiritimati", "day", "2026-03-04 10:00:00", "2026-03-04 10:00:00", "2026-03-05 10:00:00"},
		{"a day of 23 hours", "Europe/Berlin", "day", "2026-03-29 12:00:00", "2026-03-28 23:00:00", "2026-03-29 22:00:00"},
		{"a day of 25 hours", "Europe/Berlin", "day", "2026-10-25 12:00:00", "2026-10-24 22:00:00", "2026-10-25 23:00:00"},
		{"a month with one hour less", "Europe/Berlin", "month", "2026-03-29 12:00:00", "2026-02-28 23:00:00", "2026-03-31 22:00:00"},
		{"the hour before one that is skipped", "Europe/Berlin", "hour", "2026-03-29 00:59:59", "2026-03-29 00:00:00", "2026-03-29 01:00:00"},
		{"the hour after it", "Europe/Berlin", "hour", "2026-03-29 01:00:00", "2026-03-29 01:00:00", "2026-03-29 02:00:00"},
		{"an hour that occurs twice", "Europe/Berlin", "hour", "2026-10-25 00:30:00", "2026-10-25 00:00:00", "2026-10-25 02:00:00"},
		{"the second time", "Europe/Berlin", "hour", "2026-10-25 01:30:00", "2026-10-25 00:00:00", "2026-10-25 02:00:00"},
		{"half an hour that is skipped", "Australia/Lord_Howe", "hour", "2026-10-03 15:45:00", "2026-10-03 15:30:00", "2026-10-03 16:00:00"},
		{"half an hour that occurs twice", "Australia/Lord_Howe", "hour", "2026-04-04 15:15:00", "2026-04-04 14:00:00", "2026-04-04 15:30:00"},
		{"the evening before a midnight that is skipped", "America/Sao_Paulo", "day", "2018-11-04 02:30:00", "2018-11-03 03:00:00", "2018-11-04 03:00:00"},
		{"the day that begins at one", "America/Sao_Paulo", "day", "2018-11-04 03:00:00", "2018-11-04 03:00:00", "2018-11-05 02:00:00"},
		{"the first of two midnights", "Asia/Amman", "day", "2021-10-28 21:30:00", "2021-10-28 21:00:00", "2021-10-29 22:00:00"},
		{"the second of two midnights", "Asia/Amman", "day", "2021-10-28 22:30:00", "2021-10-28 21:00:00", "2021-10-29 22:00:00"},
		{"a minute of the next day", "America/St_Johns", "day", "2010-11-07 02:30:30", "2010-11-07 02:30:00", "2010-11-08 03:30:00"},
		{"and the day before again", "America/St_Johns", "day", "2010-11-07 03:00:00", "2010-11-07 02:30:00", "2010-11-08 03:30:00"},
		{"a day before one that a zone skipped", "Pacific/Apia", "day", "2011-12-30 09:59:59", "2011-12-29 10:00:00", "2011-12-30 10:00:00"},
		{"the day after it", "Pacific/Apia", "day", "2011-12-30 10:00:00", "2011-12-30 10:00:00", "2011-12-31 10:00:00"},
	} {
		t.Run(test.about, func(t *testing.T) {
			zone, err := time.LoadLocation(test.zone)
			require.NoError(t, err)
			now, err := time.Parse(layout, test.now)
			require.NoError(t, err)
			begins, ends := verdict.Period(test.name, now.In(zone))
			require.Equal(t, test.begins, begins.UTC().Format(layout))
			require.Equal(t, test.ends, ends.UTC().Format(layout))
		})
	}
	t.Run("without a name has no end", func(t *testing.T) {
		begins, ends := verdict.Period("", time.Now())
		require.Zero(t, begins)
		require.Zero(t, ends)
	})
}

// The periods of every zone follow one another: at each time there is one, and all times in it have the same.
func TestPeriodsAreContiguous(t *testing.T) {
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Asia/Amman",
		"Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Tehran", "Africa/Casablanca", "Australia/Lord_Howe",
		"Pacific/Apia", "Pacific/Chatham", "Antarctica/Troll",
	} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		for period, step := range map[string]time.Duration{
			"hour": 59 * time.Minute, "day": 5*time.Hour + 7*time.Minute, "month": 97 * time.Hour,
		} {
			for _, year := range []int{2010, 2011, 2018, 2021} {
				if period == "hour" && year != 2010 {
					continue
				}
				followPeriods(t, period, time.Date(year, 1, 1, 0, 1, 0, 0, time.UTC).In(zone), step)
			}
		}
	}
}

// followPeriods looks at the periods of a year.
func followPeriods(t *testing.T, name string, now time.Time, step time.Duration) {
	t.Helper()
	last := now.AddDate(1, 0, 1)
	begins, ends := verdict.Period(name, now)
	for ; now.Before(last); now = now.Add(step) {
		b, e := verdict.Period(name, now)
		if b.After(now) || !e.After(now) {
			t.Fatalf("%s %s is not in %s to %s", name, now, b, e)
		}
		for ends.Before(e) { // the next one, which a step may leap over
			before := ends
			begins, ends = verdict.Period(name, ends)
			require.True(t, begins.Equal(before), "%s after %s begins at %s", name, before, begins)
		}
		require.True(t, b.Equal(begins) && e.Equal(ends), "%s of %s is %s to %s, and %s to %s", name, now, b, e, begins, ends)
	}
}

// TestTally compares a tally with a number that has no end.
func TestTally(t *testing.T) {
	most := big.NewInt(math.MaxInt64)
	numbers := []int64{0, 1, 2, 1 << 62, math.MaxInt64 - 1, math.MaxInt64, -1, -math.MaxInt64}
	for range 200 {
		var tally, other verdict.Tally
		sum, taken := new(big.Int), new(big.Int)
		for range 50 {
			n := numbers[rand.IntN(len(numbers))]
			if rand.IntN(2) == 0 {
				tally.Add(n)
				sum.Add(sum, big.NewInt(n))
			} else {
				tally.Sub(n)
				sum.Sub(sum, big.NewInt(n))
			}
			if rand.IntN(4) == 0 {
				other.Add(n)
				tally.SubAll(other)
				taken.Add(taken, big.NewInt(n))
				sum.Sub(sum, taken)
			}
			want := new(big.Int).Set(sum)
			if want.CmpAbs(most) > 0 {
				want.Mul(most, big.NewInt(int64(sum.Sign())))
			}
			require.Equal(t, want.Int64(), tally.Count())
		}
	}
}
