package session

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
)

// Flush flushes once.
func (k *Keeper) Flush(ctx context.Context) { k.flush(ctx) }

// RecheckAll has the next flush write every row.
func (k *Keeper) RecheckAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.runs {
		k.recheck(r)
	}
}

// Renew renews the lease once.
func (k *Keeper) Renew(ctx context.Context) { k.renew(ctx) }

// SetAllowed has the limits of all runs allow a silence, as if they had been changed.
func (k *Keeper) SetAllowed(allowed time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.allowed = func(*watchdog.Watchdog) time.Duration { return allowed }
}

// Requested returns how many runs are to look for a cancel.
func (k *Keeper) Requested() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.toSync)
}
