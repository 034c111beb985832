package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// An endsLog is a store without a Listener that notes what it was asked for and told.
type endsLog struct {
	session.Store
	mu    sync.Mutex // two keepers ask
	asked []string
}

func (s *endsLog) Ended(
	ctx context.Context, lease string, told []session.AttemptID,
) (ended []session.AttemptID, err error) {
	ended, err = s.Store.Ended(ctx, lease, told)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(told)+len(ended) > 0 {
		s.asked = append(s.asked, fmt.Sprintf("told %v, ended %v", told, ended))
	}
	return ended, err
}

// TestEnded protects that a keeper is told of its own runs, and of each once.
func TestEnded(t *testing.T) {
	subtest(t, "a keeper reads only what others ended of its own runs", func(f *fixture) {
		store := &endsLog{Store: f.db}
		f.cfg.Store = store
		f.start()
		wd := f.attach("s-1")
		elsewhere := f.newKeeper("there")
		defer f.run(elsewhere)()
		for i := range 20 {
			require.NoError(f, f.attachTo(elsewhere, fmt.Sprint("other-", i)).Close())
		}
		finished := f.attach("s-2")
		require.NoError(f, finished.Complete())
		other := f.attachTo(elsewhere, "other")
		f.advance(time.Minute)
		require.Empty(f, store.asked, "nobody else ended anything")
		f.cancel("s-1")
		f.cancel("other")
		f.advance(2 * session.DefaultPoll)
		f.requireCancelled(wd)
		f.requireCancelled(other)
		f.advance(time.Minute)
		require.ElementsMatch(f, []string{
			"told [], ended [{s-1 1}]", "told [{s-1 1}], ended []",
			"told [], ended [{other 1}]", "told [{other 1}], ended []",
		}, store.asked)
	})
	subtest(t, "a run that is cancelled while this process still attaches to it ends at once", func(f *fixture) {
		f.db.after = func(string) error { time.Sleep(time.Second); return nil } // fake time
		f.start()
		go func() {
			time.Sleep(500 * time.Millisecond)
			f.cancel("s-1")
		}()
		wd := f.attach("s-1")
		f.advance(10 * time.Millisecond)
		f.requireCancelled(wd)
	})
	subtest(t, "a hundred thousand ends of others leave nothing behind", func(f *fixture) {
		store := &floodListener{database: f.db}
		f.cfg.Store = store
		f.start()
		f.attach("s-1")
		f.advance(time.Second)
		for i := range 100_000 {
			store.told(fmt.Sprint("other-", i))
			require.LessOrEqual(f, f.keeper().Requested(), 1)
		}
	})
}

// floodListener is a database that a test listens in place of.
type floodListener struct {
	*database
	told func(runID string)
}

func (s *floodListener) Listen(ctx context.Context, ready func(), told func(string)) error {
	s.told = told
	ready()
	<-ctx.Done()
	return nil
}
