package sessiontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// covered is the instant up to which leases vouch in these rules for the rows that they do not name.
const covered = vouched + day

var quietRules = []rule{
	{"a renewal writes the rows that are behind, and the instant that counts for all others",
		"one row that cannot be written would hide every run of its process that hangs", func(e *env) {
			l := begin(e, homeLease)
			l.Beat, l.Vouched, l.Covered = 2, vouched, covered+1
			for i := range session.MaxBehind {
				l.Behind = append(l.Behind,
					session.RowBehind{RunID: fmt.Sprintf("rün <%d> \\\"'", i), Attempt: i + 1, Written: vouched + 1})
			}
			renewed(e, l, func() { renew(e, l) })
			l.Beat, l.Vouched, l.Behind = 3, l.Covered, nil
			renewed(e, l, func() { renew(e, l) })
		}},
	{"the rows that are behind are written only with a higher beat that covers others, and that never decreases",
		"a late renewal would hide that a row cannot be written, and its live run would be cancelled", func(e *env) {
			l := beginAt(e, homeLease, vouched)
			l.Beat, l.Covered = l.Beat+1, covered
			l.Behind = []session.RowBehind{{RunID: "run-1", Attempt: 1, Written: time.Hour}}
			renew(e, l)
			leaseIs(e, l)
			for beat := l.Beat - 1; beat <= l.Beat; beat++ {
				late := l
				late.Beat, late.Covered = beat, covered+1
				late.Behind = []session.RowBehind{{RunID: "run-2", Attempt: 1, Written: time.Hour}}
				renew(e, late)
				contract.Part(fmt.Sprintf("a renewal with the beat %d after %d", beat, l.Beat), func() { leaseIs(e, l) })
			}
			l.Beat++
			nothing := l // of a keeper that doubts what is written after a failover
			nothing.Covered, nothing.Behind = 0, nil
			renew(e, nothing)
			contract.Part("a renewal that covers nothing", func() { leaseIs(e, l) })
			l.Beat++
			l.Behind = []session.RowBehind{{RunID: "run-1", Attempt: 2, Written: time.Minute}}
			lower := l
			lower.Covered--
			renew(e, lower)
			leaseIs(e, l)
		}},
	{"a session that its lease names is silent up to its own instant, and every other up to that of the lease",
		"its run has woken up, and its process cannot write that", func(e *env) {
			rows := behind(e, nil, []freshness{
				{Activity: 1, Quiet: true}, {Activity: time.Second, Quiet: true}, {Activity: 1, Quiet: true},
				{Activity: time.Hour, Quiet: true}, {Activity: 1}, {Activity: 1, Quiet: true},
			}, session.RowBehind{RunID: "run-1", Attempt: 1, Written: 5 * time.Second},
				session.RowBehind{RunID: "run-2", Attempt: 2, Written: 5 * time.Second},
				session.RowBehind{RunID: "run-3", Attempt: 1, Written: time.Minute},
				session.RowBehind{RunID: "run-4", Attempt: 1, Written: time.Minute},
				session.RowBehind{RunID: "run-5", Attempt: 1, Written: covered + 1})
			for i, silence := range []time.Duration{covered - 1, 4 * time.Second, covered - 1, 0, 0, covered - 1} {
				rows[i].Silence, rows[i].Behind = silence, slices.Contains([]int{1, 3, 5}, i)
				looksLike(e, rows[i])
			}
		}},
	{"a session that its lease names is stalled by its own instant, and hides no other",
		"the runs of its process that hang are found as if its row could be written", func(e *env) {
			const own = time.Minute
			quiet := freshness{Activity: time.Hour, Quiet: true}
			named := func(runID string, silence time.Duration) session.RowBehind {
				return session.RowBehind{RunID: runID, Attempt: 1, Written: quiet.Activity + silence}
			}
			fresh := slices.Repeat([]freshness{quiet}, 8)
			for _, i := range []int{2, 3, 6, 7} { // behind those that are not stalled
				fresh[i].Activity += time.Duration(i) * time.Second
			}
			behind(e, map[string]time.Duration{"run-4": own, "run-5": own, "run-6": own, "run-7": own}, fresh,
				named("run-0", 0), named("run-1", threshold/2), named("run-2", 2*threshold),
				named("run-4", 0), named("run-5", own/2), named("run-6", 2*own))
			pagesThrough(e, []string{"run-2", "run-3", "run-6", "run-7"}, 1, 2, 3, 10)
		}},
	{"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		"the lease says meanwhile that the run has woken up, and the row cannot say it", func(e *env) {
			l, s := vouchedFor(e, freshness{Activity: time.Hour, Quiet: true})
			l.Beat, l.Covered = l.Beat+1, l.Vouched+time.Hour
			l.Behind = []session.RowBehind{{RunID: s.RunID, Attempt: s.Attempt, Written: l.Vouched - 1}}
			renew(e, l)
			spared(e, s)
			l.Beat, l.Behind[0].Written = l.Beat+1, l.Vouched
			renew(e, l)
			cancels(e, s, session.Done)
		}},
	{"an allowance is read as it was written, and ends with the attempt, with the lease, and where the keeper has none",
		"sweepers leave it to the run's own limits to end it, which the next process may not keep", func(e *env) {
			s := attachAllowed(e, "allowed")
			allows(e, s, allowed)
			for _, allowance := range []time.Duration{allowed + more, allowed + 2*more} {
				freshens(e, homeLease, allowing(quietSince(s, allowance), allowance))
				allows(e, s, allowance)
			}
			s = attachAllowed(e, "ended")
			freshens(e, homeLease, quietSince(s, more))
			allows(e, s, 0)
			attachAllowed(e, "ended")
			allows(e, s, allowed)
			attachUnder(e, homeLease, s.RunID)
			allows(e, s, 0)
			s = attachAllowed(e, "left behind")
			_, _, err := e.Store.ExpireLease(e.Ctx, observe(e, homeLease))
			must(err, "expire the lease")
			allows(e, s, 0)
		}},
	{"a session is stalled after more than its allowance and more than the threshold",
		"a live run is never ended for a silence that its own limits allow", func(e *env) {
			quiet := func(silence, allowance time.Duration) freshness {
				return allowing(freshness{Activity: vouched - silence, Quiet: true}, allowance)
			}
			inLease(e, nil, []freshness{
				quiet(allowed, allowed), quiet(allowed+more, allowed), quiet(threshold-more, time.Minute),
				quiet(threshold+more, time.Minute), quiet(threshold+more, allowed), quiet(longer+more, longer+2*more),
				quiet(vouched, longer),
			})
			findsYoung(e, "run-1", "run-3", "run-6")
		}},
	{"a session is not cancelled for a silence that its allowance covers",
		"its limits may have been raised after a sweeper had found it", func(e *env) {
			for runID, c := range map[string]struct {
				allowance time.Duration
				want      session.Outcome
			}{"allowed": {allowed + more, session.Changed}, "exceeded": {allowed, session.Done}} {
				s := attachAllowed(e, runID)
				freshens(e, homeLease, allowing(quietSince(s, vouched-allowed-more), c.allowance))
				cancels(e, look(e, runID), c.want)
			}
		}},
}

// behind writes sessions of a lease, run-0 the first, and returns them as they are before it names rows as behind.
func behind(e *env, own map[string]time.Duration, fresh []freshness, named ...session.RowBehind) (rows []row) {
	l := beginAt(e, homeLease, time.Hour)
	for i := range fresh {
		s := silentSession(fmt.Sprint("run-", i), noon, 0)
		s.Threshold = own[s.RunID]
		fresh[i].RunID, fresh[i].Attempt = s.RunID, s.Attempt
		rows = append(rows, s)
	}
	put(e, rows...)
	freshens(e, l.ID, fresh...)
	for i, s := range rows {
		rows[i] = look(e, s.RunID)
	}
	l.Beat, l.Clock, l.Covered, l.Behind = l.Beat+1, covered+lag, covered, named
	renew(e, l)
	return rows
}

// allowed is how long a run may be silent in these rules, and longer more than that.
const (
	allowed = 500 * day
	longer  = 600 * day
	more    = time.Millisecond
)

// attachAllowed begins the lease, and attaches to a run with an allowance.
func attachAllowed(e *env, runID string) row {
	beginAt(e, homeLease, vouched)
	s := underLease(newSession(runID), homeLease)
	s.Allowance = allowed
	return attach(e, s)
}

// allowing returns a freshness with an allowance.
func allowing(f freshness, allowance time.Duration) freshness {
	f.Allowance = allowance
	return f
}

// allows checks the allowance of a run, which has no threshold.
func allows(e *env, of row, want time.Duration) {
	s := look(e, of.RunID)
	require(s.Allowance == want && s.Threshold == 0, "the row is %+v, want the allowance %v", s, want)
}
