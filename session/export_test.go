package session

import "context"

// Flush flushes once.
func (k *Keeper) Flush(ctx context.Context) { k.flush(ctx) }

// RecheckAll has the next flush write every row.
func (k *Keeper) RecheckAll() { k.recheckAll() }

// Renew renews the lease once.
func (k *Keeper) Renew(ctx context.Context) { k.renew(ctx) }
