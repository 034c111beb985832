package page_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A rogue is a store each of whose calls does something before it answers, whatever its context says.
type rogue struct {
	*database
	do func()
}

func (r rogue) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	r.do()
	return r.database.List(ctx, q)
}

func (r rogue) Session(ctx context.Context, runID string) (session.Session, error) {
	r.do()
	return r.database.Session(ctx, runID)
}

func (r rogue) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	r.do()
	return r.database.History(ctx, h)
}

func (r rogue) Read(ctx context.Context, aggregateType, runID string) ([]watchdog.Event, error) {
	r.do()
	return r.database.Read(ctx, aggregateType, runID)
}

func (r rogue) Layers(ctx context.Context, parent string) ([]string, error) {
	r.do()
	return r.database.Layers(ctx, parent)
}

func (r rogue) Follow(ctx context.Context, runID string, ready func(), told func(watchdog.Event)) error {
	r.do()
	return r.database.Follow(ctx, runID, ready, told)
}

// TestRogueStores protects a host whose store does not keep its promises: readers are told that it does not answer, the
// process lives, and Close returns.
func TestRogueStores(t *testing.T) {
	const secret = "hunter2"
	for name, store := range map[string]struct {
		do    func(over chan struct{})
		bound time.Duration
	}{
		"one that never answers, whatever its context says": {func(over chan struct{}) { <-over }, 7 * time.Second},
		"one that panics": {func(chan struct{}) { panic(secret) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.begin("s-1", "worker-1", 0, session.State{})
				over := make(chan struct{})
				bad := rogue{f.db, func() { store.do(over) }}
				f.cfg.Sessions, f.cfg.Events = bad, bad
				for _, query := range []string{"", "?run=s-1", "?view=sweeper", "?state=ended"} {
					began := time.Now()
					w := f.get(query)
					assert.Equal(t, http.StatusServiceUnavailable, w.Code, query)
					assert.Contains(t, w.Body.String(), "The database does not answer.")
					assert.LessOrEqual(t, time.Since(began), store.bound, query)
				}
				r := f.join("")
				time.Sleep(10 * time.Second)
				got := r.events()
				require.NotEmpty(t, got)
				assert.True(t, got[0].Trouble)
				began := time.Now()
				require.NoError(t, f.page().Close())
				assert.LessOrEqual(t, time.Since(began), 2*time.Second)
				<-r.done
				assert.NotContains(t, f.log.String(), secret, "what a panic says may be a secret")
				close(over)
				synctest.Wait()
			})
		})
	}
}

// A timeless store is another program's, whose rows have no times.
type timeless struct{ *database }

func (timeless) Session(_ context.Context, runID string) (session.Session, error) {
	return session.Session{RunID: runID, Status: session.Active}, nil
}

func TestTimelessRow(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.Sessions = timeless{f.db}
		require.Contains(t, f.shown("?run=s-1"), `class="badge running"`)
	})
}
