//go:build linux

package histories_test

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed62658d38/watchdog/session"
)

// leasesOfRun is how many leases a run has. Nobody else's rows are in them, so that all that can be said of a lease is
// in the history of its run.
const leasesOfRun = 12

// What a process does to a lease.
const (
	doBegin  = "begin lease"
	doRenew  = "renew lease"
	doExpire = "expire lease"
	// doLeave is the second half of the call that expires a lease: a store may take the sessions out in a transaction of
	// its own.
	doLeave = "leave lease"
	doEnded = "ask lease"
)

// A lease is what a store knows of one; zero if there is none.
type lease struct {
	beat    int64
	expired bool
	ended   attempts // that it is to be told of
}

func (l lease) lives() bool { return l.beat > 0 && !l.expired }

// attempts are a set of attempts.
type attempts uint64

func attemptSet(attempt int) attempts { return 1 << attempt }

// note has the lease of the row told that somebody else ends the attempt.
func (s *sessionState) note() {
	if l := &s.leases[s.row.Lease]; l.beat > 0 {
		l.ended |= attemptSet(s.row.Attempt)
	}
}

// names returns how many sessions are in a lease.
func (s sessionState) names(lease int) int {
	if s.row.Lease == lease {
		return 1
	}
	return 0
}

// ofLease says what the answer to a call about a lease is. Each is begun once, by one call.
func (s sessionState) ofLease(c sessionCall) (want sessionAnswer, next sessionState) {
	l := &s.leases[c.Lease]
	switch c.Do {
	case doBegin:
		l.beat = 1
	case doRenew:
		if want.Expired = !l.lives(); l.lives() {
			l.beat = max(l.beat, c.Beat)
		}
	case doExpire:
		if l.lives() && l.beat != c.Beat {
			want.Left = s.names(c.Lease)
			return want, s
		}
		want.Expired, l.expired = true, l.beat > 0
		s.forgetEmpty(c.Lease)
	case doLeave:
		if l.expired && s.names(c.Lease) > 0 {
			s.row.signs = signs{Attempt: s.row.Attempt, Last: max(s.row.Last, s.row.Activity)}
			s.row.Warned, s.row.Expired = false, c.Lease
		}
		s.forgetEmpty(c.Lease)
	case doEnded:
		l.ended &^= c.Told
		want.Ended = l.ended
	}
	return want, s
}

// forgetEmpty deletes an expired lease that no session is in, and what it was not told of.
func (s *sessionState) forgetEmpty(number int) {
	if l := &s.leases[number]; l.expired && s.names(number) == 0 {
		*l = lease{}
	}
}

// callsOfLease is after how many calls about the same objects each run gets another lease.
const callsOfLease = callsOfSlot / 3

// ofLease does something to a lease of a run.
func (c *client) ofLease(ctx context.Context, run string) {
	switch number := c.anyLease(); c.rand.IntN(6) {
	case 0:
		c.renewLease(ctx, run, number)
	case 1, 2:
		c.expireLease(ctx, run, number)
	default:
		c.askLease(ctx, run, number)
	}
}

// anyLease returns the number of the latest lease, or of one before it.
func (c *client) anyLease() int { return max(1, min(c.latest, leasesOfRun)-c.rand.IntN(2)) }

// leaseOf returns the ID of a lease by its number, empty for none.
func leaseOf(run string, number int) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d", run, number)
}

func numberOf(lease string) int {
	n, _ := strconv.Atoi(lease[strings.LastIndexByte(lease, '/')+1:]) // without a lease it is 0
	return n
}

func (c *client) beginLease(ctx context.Context, run string, number int) {
	answered := c.begin(run, sessionCall{Do: doBegin, signs: signs{Lease: number}})
	answered(sessionAnswer{}, c.store.BeginLease(ctx, session.Lease{ID: leaseOf(run, number), Beat: 1}))
}

func (c *client) renewLease(ctx context.Context, run string, number int) {
	answered := c.begin(run, sessionCall{Do: doRenew, signs: signs{Lease: number}, Beat: c.number})
	id := leaseOf(run, number)
	err := c.store.RenewLease(ctx, session.Lease{ID: id, Beat: c.number})
	answered(sessionAnswer{}, err)
	if err == nil {
		c.beats[id] = c.number
	}
}

// expireLease judges a lease by the last beat that this client wrote, or by the first: others can have renewed it. Once
// in a while it is one that nobody wrote.
func (c *client) expireLease(ctx context.Context, run string, number int) {
	id := leaseOf(run, number)
	judged := session.Lease{ID: id, Beat: cmp.Or(c.beats[id], 1)}
	if c.rand.IntN(4) == 0 {
		judged.Beat = c.number
	}
	expiring := c.begin(run, sessionCall{Do: doExpire, signs: signs{Lease: number}, Beat: judged.Beat})
	leaving := c.begin(run, sessionCall{Do: doLeave, signs: signs{Lease: number}})
	expired, left, err := c.store.ExpireLease(ctx, judged)
	if !expired {
		expiring(sessionAnswer{Left: left}, err)
		leaving(sessionAnswer{Undone: true}, err)
		return
	}
	expiring(sessionAnswer{Expired: true}, err)
	leaving(sessionAnswer{Left: left}, err)
}

// askLease asks which attempts of the lease others have ended. It may say that it was told of those of its last answer.
func (c *client) askLease(ctx context.Context, run string, number int) {
	id := leaseOf(run, number)
	told := c.told[id]
	if c.rand.IntN(2) == 0 {
		told = nil
	}
	answered := c.begin(run, sessionCall{Do: doEnded, signs: signs{Lease: number}, Told: attemptsOf(told)})
	ended, err := c.store.Ended(ctx, id, told)
	answered(sessionAnswer{Ended: attemptsOf(ended)}, err)
	if err == nil {
		c.told[id] = ended
	}
}

func attemptsOf(all []session.AttemptID) (set attempts) {
	for _, a := range all {
		set |= attemptSet(a.Attempt)
	}
	return set
}
