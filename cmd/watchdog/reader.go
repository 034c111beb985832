package main

import "context"

// openReader opens the store to read from it.
func (c *Common) openReader(ctx context.Context) (database, error) { return c.open(ctx) }
