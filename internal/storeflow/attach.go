package storeflow

import (
	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// An Attempt has the columns of the row of a run that attaches. In a lease the threshold is off, for sweepers that know
// no leases, and the run's own is beside it.
type Attempt struct {
	Threshold      int64
	Lease          *string
	Own, Allowance *int64
}

// AttemptOf returns the columns of a run.
func AttemptOf(run session.Session) Attempt {
	own := int64(run.Threshold)
	if run.Lease == "" {
		return Attempt{Threshold: own}
	}
	a := Attempt{Threshold: int64(watchdog.NoLimit), Lease: &run.Lease, Own: &own}
	if run.Allowance > 0 {
		a.Allowance = (*int64)(&run.Allowance)
	}
	return a
}
