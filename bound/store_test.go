package bound_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

var errDiskFull = errors.New("disk full")

// slowStore is a Memory that can be told to fail or to hang. It is not a *Memory to the watchdog, so that it is waited
// for.
type slowStore struct {
	Memory watchdog.Memory

	mu      sync.Mutex
	fail    error         // what Append returns
	hang    chan struct{} // what Append waits for
	appends int           // how often Append was called
}

func (s *slowStore) set(fail error, hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.hang = fail, hang
}

func (s *slowStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.mu.Lock()
	fail, hang := s.fail, s.hang
	s.appends++
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if fail != nil {
		return fail
	}
	return s.Memory.Append(ctx, events...)
}

func (s *slowStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	return s.Memory.Read(ctx, aggregateType, aggregateID)
}

// eventsOf returns the events of one kind of a run.
func eventsOf(t *testing.T, store watchdog.EventStore, runID, kind string) (found []watchdog.Event) {
	t.Helper()
	all, err := store.Read(context.Background(), watchdog.AggregateType, runID)
	require.NoError(t, err)
	for _, e := range all {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

// overrunsOf returns what a run has on record of its calls.
func overrunsOf(t *testing.T, store watchdog.EventStore, runID string) (found []map[string]any) {
	t.Helper()
	for _, e := range eventsOf(t, store, runID, watchdog.EventOverrun) {
		var payload map[string]any
		require.NoError(t, json.Unmarshal(e.Payload, &payload))
		found = append(found, payload)
	}
	return found
}

// onlyOverrun returns the one overrun that a run has on record.
func onlyOverrun(t *testing.T, store watchdog.EventStore, runID string) map[string]any {
	t.Helper()
	all := overrunsOf(t, store, runID)
	require.Len(t, all, 1)
	return all[0]
}
