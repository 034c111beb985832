package main

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/internal/story"
)

func (c *Common) withStore(ctx context.Context, use stores.Use, work func(stores.Database) error) error {
	db, err := stores.Open(ctx, c.Store, use)
	if err != nil {
		return err
	}
	return errors.Join(work(db), db.Close())
}

// line is a command line about a run in the store, as a person pastes it into a shell.
func (c *Common) line(command, id string) string {
	return story.Next{Command: c.inStore(story.CommandLine(command, id))}.Line()
}

// inStore has a command line of this program name the store, unless it has that from the environment, too.
func (c *Common) inStore(words []string) []string {
	if len(words) == 0 || os.Getenv("WATCHDOG_STORE") == c.Store {
		return words
	}
	return slices.Insert(slices.Clone(words), 2, "--store", stores.WithoutPassword(c.Store))
}
