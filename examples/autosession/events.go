package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// printEvents prints the events of a session, oldest first. The session may be running.
func printEvents(opts options, out io.Writer) error {
	dir, err := findState(opts)
	if err != nil {
		return err
	}
	id, err := findID(dir, opts.session)
	if err != nil {
		return err
	}
	events, err := readEvents(dir, id)
	if err != nil {
		return fmt.Errorf("print events of session %s: %w", id, err)
	}
	lines := json.NewEncoder(out)
	for _, e := range events {
		if err := lines.Encode(e); err != nil {
			return fmt.Errorf("print events of session %s: %w", id, err)
		}
	}
	return nil
}

// findID returns the ID of an existing session. It does not read the session's file.
func findID(dir state.Dir, id string) (string, error) {
	if id == "" {
		return dir.Latest()
	}
	_, err := dir.Load(id)
	if errors.Is(err, state.ErrCorrupt) {
		err = nil
	}
	return id, err
}

func readEvents(dir state.Dir, id string) (events []watchdog.Event, err error) {
	store, err := sqlite.Open(context.Background(), dir.Events())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Read(context.Background(), watchdog.AggregateType, id)
}
