package session

import "context"

// Look is one look of the keeper.
func (k *Keeper) Look(ctx context.Context) { k.look(ctx) }

// Doubt has the next look write every row.
func (k *Keeper) Doubt() { k.doubt() }
