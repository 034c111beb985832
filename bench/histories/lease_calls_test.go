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
