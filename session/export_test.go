package session

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
)

// Flush flushes once.
func (k *Keeper) Flush(ctx context.Context) { k.flusher.flush(ctx) }

// BeginRunning has the keeper keep runs though nothing calls Run: tests flush and renew by hand.
func (k *Keeper) BeginRunning() { k.running.open() }

// RecheckAll has the next flush write every row.
func (k *Keeper) RecheckAll() {
	k.roster.mu.Lock()
	defer k.roster.mu.Unlock()
	for _, r := range k.roster.runs {
		k.roster.recheck(r)
	}
}

// Renew renews the lease once.
func (k *Keeper) Renew(ctx context.Context) { k.leases.renew(ctx) }

// SetAllowed has the limits of all runs allow a silence, as if they had been changed.
func (k *Keeper) SetAllowed(allowed time.Duration) {
	k.roster.mu.Lock() // as the next flush does
	defer k.roster.mu.Unlock()
	k.rows.allowed = func(*watchdog.Watchdog) time.Duration { return allowed }
}

// Told tells the keeper that a run has ended, as its Listener does.
func (k *Keeper) Told(runID string) { k.roster.request(runID) }

// Requested returns how many runs are to look for a cancel.
func (k *Keeper) Requested() int {
	k.roster.mu.Lock()
	defer k.roster.mu.Unlock()
	return len(k.roster.toSync)
}
