package sessiontest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

var leaseRules = []rule{
	{"a lease is read as it was begun, and as it was renewed, at the time of that",
		"whoever observes it counts in its promises, and a lease whose beat stands still belongs to a dead process",
		func(e *env) {
			l := lease{
				ID: homeLease, Host: "höst", Promise: 1_234_567_891, Beat: 1 << 40, Clock: 999*day + 1, Vouched: 998*day + 2,
			}
			renewed(e, l, func() { must(e.Store.BeginLease(e.Ctx, l), "begin a lease") })
			l.Beat, l.Clock, l.Vouched = l.Beat+1, 1000*day+1, 1000*day
			renewed(e, l, func() { renew(e, l) })
		}},
	{"beginning a lease that lives is no error and changes nothing",
		"the answer to the first try may have been lost, and the lease may have been renewed since", func(e *env) {
			l := beginAt(e, homeLease, time.Hour)
			again := lease{ID: homeLease, Host: "host-2", Promise: time.Minute, Beat: 1}
			must(e.Store.BeginLease(e.Ctx, again), "begin it again")
			leaseIs(e, l)
		}},
	{"a lease with a promise that is too long, or negative, is an error and not made",
		"a sweeper would have to watch it for hours to find its process dead", func(e *env) {
			for _, promise := range []time.Duration{session.LongestPromise + time.Second, -time.Second} {
				err := e.Store.BeginLease(e.Ctx, lease{ID: homeLease, Host: host, Promise: promise, Beat: 1})
				require(err != nil, "a lease was begun with the promise %v", promise)
			}
			noLease(e, homeLease)
		}},
	{"nothing that a renewal writes ever decreases",
		"a renewal that comes late would make a live process look dead, or a live run silent", func(e *env) {
			l := beginAt(e, homeLease, time.Hour)
			late, again, next := l, l, l
			late.Beat, late.Clock, late.Vouched = l.Beat-1, l.Clock-1, l.Vouched-1
			again.Clock, again.Vouched = l.Clock+1, l.Vouched+1
			next.Beat, next.Clock, next.Vouched = l.Beat+1, l.Clock-1, l.Vouched-1
			renew(e, late)
			leaseIs(e, l)
			renew(e, again)
			contract.Part("a renewal with the beat of the one before", func() { leaseIs(e, l) })
			renew(e, next)
			l.Beat++
			leaseIs(e, l)
		}},
	{"a lease that was never begun cannot be renewed",
		"a lease that was deleted has expired, and must not come back", func(e *env) {
			refused("RenewLease", e.Store.RenewLease(e.Ctx, lease{ID: homeLease, Host: host, Promise: time.Second, Beat: 2}))
			noLease(e, homeLease)
		}},
	{"all leases are observed, ordered by ID, whoever is a suspect",
		"a lease that is not observed never expires, and its dead sessions stay active for ever", func(e *env) {
			want := []string{"A", "a", "lease 1", "lease-1", "z"}
			for _, id := range []string{"z", "a", "lease-1", "A", "lease 1"} {
				begin(e, id)
			}
			for _, suspects := range [][]string{nil, {"lease-1"}, {"z", "A", "a", "lease 1", "lease-1"}, {"unknown", "z"}} {
				all, err := e.Store.ObserveLeases(e.Ctx, suspects)
				must(err, "observe leases with the suspects %q", suspects)
				var got []string
				for _, l := range all {
					got = append(got, l.ID)
				}
				require(slices.Equal(got, want), "with the suspects %q the leases are %q, want %q", suspects, got, want)
			}
		}},
	{"to observe a lease does not change it, and a renewal between two looks at a suspect is seen",
		"a sweeper that renews what it looks at never finds a process dead, and with an old snapshot a live one looks so",
		func(e *env) {
			l := beginAt(e, homeLease, time.Hour)
			for range 3 {
				first := observe(e, homeLease)
				require(first.Beat == l.Beat && first.Clock == l.Clock, "the lease is %+v, want %+v", first, l)
				for range 2 {
					next := observe(e, homeLease, homeLease)
					require(sameLease(next, first), "the lease is\n\t%+v, was\n\t%+v", next, first)
				}
				l = vouch(e, l, l.Vouched+time.Second)
			}
		}},
	{"the sessions of a lease are its active ones, each with its attempt",
		"a keeper ends the runs whose rows others have, and attaches again to those whose rows were lost", func(e *env) {
			attachEach(e, homeLease, "first", "second", "second", "ended")
			attachLeased(e, awayLease, "of another")
			attach(e, newSession("of none"))
			finish(e, "ended")
			leads(e, homeLease, session.AttemptID{RunID: "first", Attempt: 1}, session.AttemptID{RunID: "second", Attempt: 2})
			leads(e, "unknown")
		}},
}

// renewed checks a lease that renew writes.
func renewed(e *env, want lease, renew func()) {
	from := movedClock(e)
	renew()
	to := clockOf(e)
	leaseIs(e, want)
	within("RenewedAt", observe(e, want.ID).RenewedAt, from, to)
}

// movedClock returns the time of the store's clock when that has moved on, or after a hundred tries.
func movedClock(e *env) time.Time {
	first := clockOf(e)
	now := first
	for tries := 0; tries < 100 && now.Equal(first); tries++ {
		now = clockOf(e)
	}
	return now
}

// leaseIs checks what a process wrote into its lease.
func leaseIs(e *env, want lease) {
	got := observe(e, want.ID)
	want.RenewedAt = got.RenewedAt
	require(sameLease(got, want), "the lease is\n\t%+v, want\n\t%+v", got, want)
}

func sameLease(a, b lease) bool {
	a.RenewedAt, b.RenewedAt = a.RenewedAt.UTC(), b.RenewedAt.UTC()
	behind := slices.Equal(a.Behind, b.Behind)
	a.Behind, b.Behind = nil, nil
	return behind && reflect.DeepEqual(a, b)
}

func noLease(e *env, id string) {
	l := observe(e, id)
	require(l.ID == "", "there is the lease %+v", l)
}

// refused checks that a call found a lease that does not live.
func refused(call string, err error) {
	require(errors.Is(err, session.ErrLeaseExpired), "%s returned the error %w, want ErrLeaseExpired", call, err)
}

func leads(e *env, lease string, want ...session.AttemptID) {
	got, err := e.Store.LeaseSessions(e.Ctx, lease)
	must(err, "read the sessions of %s", lease)
	slices.SortFunc(got, compareAttempts)
	require(slices.Equal(got, want), "the sessions of %s are %+v, want %+v", lease, got, want)
}

func compareAttempts(a, b session.AttemptID) int {
	return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Attempt, b.Attempt))
}

func attemptsOf(all []row) (ids []session.AttemptID) {
	for _, s := range all {
		ids = append(ids, session.AttemptID{RunID: s.RunID, Attempt: s.Attempt})
	}
	return ids
}

// lag is how far the clock of a lease is beyond what it vouches for.
const lag = time.Minute

// begin begins a lease whose process has written nothing yet.
func begin(e *env, id string) lease {
	l := lease{ID: id, Host: host, Promise: 10 * time.Second, Beat: 1}
	must(e.Store.BeginLease(e.Ctx, l), "begin the lease %s", id)
	return l
}

func renew(e *env, l lease) { must(e.Store.RenewLease(e.Ctx, l), "renew the lease %s", l.ID) }

// vouch renews a lease, which vouches for all before an instant of its clock: that has gone on since, by lag.
func vouch(e *env, l lease, at time.Duration) lease {
	l.Beat, l.Clock, l.Vouched = l.Beat+1, at+lag, at
	renew(e, l)
	return l
}

// beginAt begins a lease that vouches for all before an instant of its clock.
func beginAt(e *env, id string, at time.Duration) lease { return vouch(e, begin(e, id), at) }

func underLease(s row, lease string) row {
	s.Lease = lease
	return s
}

func attachUnder(e *env, lease, runID string) row {
	return attach(e, underLease(newSession(runID), lease))
}

// attachLeased begins a lease and attaches to a run under it.
func attachLeased(e *env, lease, runID string) row { return attachEach(e, lease, runID)[0] }

// attachEach begins a lease and attaches to each run under it.
func attachEach(e *env, lease string, runIDs ...string) (all []row) {
	begin(e, lease)
	for _, runID := range runIDs {
		all = append(all, attachUnder(e, lease, runID))
	}
	return all
}

// observe returns a lease as it is observed, with a zero ID if there is none.
func observe(e *env, id string, suspects ...string) lease {
	all, err := e.Store.ObserveLeases(e.Ctx, suspects)
	must(err, "observe leases")
	i := slices.IndexFunc(all, func(l lease) bool { return l.ID == id })
	if i < 0 {
		return lease{}
	}
	return all[i]
}

func expires(e *env, l lease, want bool, wantLeft int) {
	expired, left, err := e.Store.ExpireLease(e.Ctx, l)
	must(err, "expire the lease %s", l.ID)
	require(expired == want && left == wantLeft, "%s: %v, %d left, want %v, %d", l.ID, expired, left, want, wantLeft)
}

// vouchedFor puts a session that was silent for an hour into a lease that vouches for ten hours of its clock.
func vouchedFor(e *env, f freshness) (lease, row) {
	return vouchedAfter(e, time.Hour, f)
}

func vouching(f freshness) func(e *env) (lease, row) {
	return func(e *env) (lease, row) { return vouchedFor(e, f) }
}

// vouchedAfter is vouchedFor with another silence before the lease.
func vouchedAfter(e *env, silence time.Duration, f freshness) (lease, row) {
	l := beginAt(e, homeLease, 10*time.Hour)
	s := putSilent(e, homeRun, silence)
	f.RunID, f.Attempt = s.RunID, s.Attempt
	freshens(e, l.ID, f)
	return l, look(e, s.RunID)
}

var freshRules = []rule{
	{"an activity is read as it was written, to the nanosecond, and is never taken back",
		"a cancel compares it with the judged one; and two writes in the wrong order would make a live session look silent",
		func(e *env) {
			s := attachLeased(e, homeLease, homeRun)
			for _, s.Activity = range []time.Duration{0, 123_456_789, 1000*day + 1} {
				freshens(e, homeLease, activity(s, s.Activity))
				looksLike(e, s)
			}
			f := quietSince(s, 0)
			f.State = json.RawMessage(`{"phase":"earlier"}`)
			for _, f.Activity = range []time.Duration{s.Activity - 1, 0, session.NoActivity} {
				freshens(e, homeLease, f)
				looksLike(e, s)
			}
		}},
	{"freshening puts a session into a lease with its first activity, from none and from another",
		"a keeper claims rows back like this, and each lease has a clock of its own, which begins at zero", func(e *env) {
			s := attach(e, newSession(homeRun))
			puts := func(lease string, activities ...time.Duration) {
				s.Lease = begin(e, lease).ID
				for _, s.Activity = range activities {
					freshens(e, lease, activity(s, s.Activity))
					looksLike(e, s)
				}
			}
			puts(homeLease, session.NoActivity, 3*time.Hour)
			puts(awayLease, time.Second)
		}},
	{"freshening writes the state that it has, and without one leaves the state as it is",
		"a state is written when it has changed, and a page shows it until then", func(e *env) {
			begin(e, homeLease)
			s := underLease(newSession(homeRun), homeLease)
			s.State = json.RawMessage(`{"phase":"first"}`)
			s = attach(e, s)
			s.Activity = 0
			for _, state := range []json.RawMessage{nil, json.RawMessage(`{"phase":"second"}`), nil} {
				s.Activity += time.Minute
				f := activity(s, s.Activity)
				if f.State = state; state != nil {
					s.State = state
				}
				freshens(e, homeLease, f)
				looksLike(e, s)
			}
		}},
	{"a session in another attempt, one that has ended and a run without a row are left alone and returned as gone",
		"this is how a keeper learns that its run was cancelled, or goes on elsewhere", func(e *env) {
			now, rows := clockOf(e), []row{}
			for status, attempt := range map[session.Status]int{
				session.Active: 2, session.Cancelled: 1, session.Interrupted: 1, session.Finished: 1,
			} {
				s := silentSession(string(status), now, time.Hour)
				s.Status, s.Attempt = status, attempt
				rows = append(rows, s)
			}
			put(e, rows...)
			begin(e, homeLease)
			for _, runID := range append(names(rows), "unknown") {
				gone := freshen(e, homeLease, freshness{RunID: runID, Attempt: 1})
				require(slices.Equal(gone, []string{runID}), "gone are %q, want %q", gone, runID)
			}
			for _, s := range rows {
				looksLike(e, s)
			}
		}},
	{"ten thousand sessions are freshened in one call, and no others; none are if nothing is fresh",
		"a process writes the rows of all its runs at once; the store must get around a limit on parameters", freshensMany},
}

// crowd is how many rows freshensMany has.
var crowd = racing.Rounds(10_000, 10_000)

// freshensMany freshens all rows but every hundredth, and some runs that have no row.
func freshensMany(e *env) {
	now := clockOf(e)
	var rows []row
	var fresh []freshness
	var want, untouched []string
	for i := range crowd {
		s := silentSession(fmt.Sprintf("run-%05d", i), now, day)
		rows = append(rows, s)
		if i%100 == 0 {
			untouched = append(untouched, s.RunID)
			continue
		}
		fresh = append(fresh, activity(s, 0))
	}
	for i := range 50 {
		want = append(want, fmt.Sprintf("unknown-%02d", i))
		fresh = append(fresh, freshness{RunID: want[i], Attempt: 1})
	}
	put(e, rows...)
	begin(e, homeLease)
	freshens(e, homeLease)
	gone := freshen(e, homeLease, fresh...)
	require(slices.Equal(gone, want), "gone are %s, want %s", contract.Shorten(gone), contract.Shorten(want))
	findsOnly(e, untouched...)
}
