package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// calls counts what a store was asked.
type calls struct{ appends, reads, selects, transacts int }

// An innerStore is a TransactionalStore that counts.
type innerStore struct {
	watchdog.Memory
	calls calls
}

func (s *innerStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.calls.appends++
	return s.Memory.Append(ctx, events...)
}

func (s *innerStore) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	s.calls.reads++
	return s.Memory.Read(ctx, kind, id)
}

func (s *innerStore) Select(ctx context.Context, selection watchdog.Selection) ([]watchdog.Event, error) {
	s.calls.selects++
	return s.Memory.Select(ctx, selection)
}

func (s *innerStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	s.calls.transacts++
	return s.Memory.Transact(ctx, exchanges...)
}

// A closedWrapper wraps a store and is not to be passed by.
type closedWrapper struct {
	inside watchdog.EventStore
	calls  calls
}

func (s *closedWrapper) Append(ctx context.Context, events ...watchdog.Event) error {
	s.calls.appends++
	return s.inside.Append(ctx, events...)
}

func (s *closedWrapper) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	s.calls.reads++
	return s.inside.Read(ctx, kind, id)
}

// An openWrapper may be passed by.
type openWrapper struct{ closedWrapper }

func (s *openWrapper) Unwrap() watchdog.EventStore { return s.inside }

// An embedder has Select and Transact of the store that it embeds, and overrides Append alone.
type embedder struct {
	*innerStore
	appended []string
}

func (s *embedder) Append(ctx context.Context, events ...watchdog.Event) error {
	for _, e := range events {
		s.appended = append(s.appended, e.Type)
	}
	return s.innerStore.Append(ctx, events...)
}

// liveAndDie attaches, warns, syncs and cancels, resumes and completes a run, and attaches to it again.
func liveAndDie(t *testing.T, store watchdog.EventStore) {
	t.Helper()
	inFixture(t, func(b *fixture) {
		b.cfg.Store, b.cfg.PollOnly = store, true
		wd := b.attach()
		b.pass(watchdog.DefaultWallClock - time.Minute)
		require.Nil(b.t, wd.Stop()) // warns
		_, err := wd.Sync(b.t.Context())
		require.NoError(b.t, err)
		_, err = wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
		require.NoError(b.t, err)
		require.NoError(b.t, b.resume().Complete())
		b.requireComplete()
	})
}

// TestWrappedStore protects that a wrapper is passed by only if it says so.
func TestWrappedStore(t *testing.T) {
	t.Run("one with Unwrap is passed by where the store inside can do more, however deep it lies", func(t *testing.T) {
		inside := &innerStore{}
		middle := &openWrapper{closedWrapper{inside: inside}}
		wrapper := &openWrapper{closedWrapper{inside: middle}}
		liveAndDie(t, wrapper)
		require.Equal(t, calls{appends: 2}, wrapper.calls, "the warning and the resume")
		require.Equal(t, wrapper.calls, middle.calls)
		require.Equal(t, 2, inside.calls.appends)
		require.Zero(t, inside.calls.reads)
		require.Equal(t, 2, inside.calls.transacts, "the cancel and the complete")
		require.Positive(t, inside.calls.selects)
	})
	t.Run("one without is asked to append and to read, and nothing inside it is asked anything else", func(t *testing.T) {
		inside := &innerStore{}
		wrapper := &closedWrapper{inside: inside}
		liveAndDie(t, wrapper)
		require.Equal(t, wrapper.calls, inside.calls)
		require.Equal(t, 4, wrapper.calls.appends, "the warning, the resume, the cancel and the complete")
		require.Positive(t, wrapper.calls.reads)
	})
	t.Run("nor is anything behind it", func(t *testing.T) {
		inside := &innerStore{}
		wrapper := &openWrapper{closedWrapper{inside: &closedWrapper{inside: inside}}}
		liveAndDie(t, wrapper)
		require.Zero(t, inside.calls.selects+inside.calls.transacts)
		require.Equal(t, 4, wrapper.calls.appends)
	})
	t.Run("one that embeds a store and overrides Append alone does not see the ends", func(t *testing.T) {
		wrapper := &embedder{innerStore: &innerStore{}}
		liveAndDie(t, wrapper)
		require.Equal(t, []string{watchdog.EventWarning, watchdog.EventResume}, wrapper.appended)
		require.Equal(t, 2, wrapper.innerStore.calls.transacts)
	})
}
