package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// When several hosts attach to one new run at once, each sees the attempt before its own. They wait for a row that
// none of them could see when its statement began.
func TestAttachAtOnce(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t)+"&pool_max_conns=8", postgres.Config{})
	for run := range 30 {
		var all sync.WaitGroup
		var mu sync.Mutex
		var befores []int
		for range 8 {
			all.Go(func() {
				before, after, err := s.Attach(t.Context(), session.Session{RunID: fmt.Sprint(run), StartedAt: noon})
				assert.NoError(t, err)
				assert.Equal(t, before.Attempt+1, after.Attempt)
				mu.Lock()
				defer mu.Unlock()
				befores = append(befores, before.Attempt)
			})
		}
		all.Wait()
		slices.Sort(befores)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, befores)
	}
}

// Writers of the same events and rows in opposite orders do not deadlock.
func TestDeadlocks(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn+"&pool_max_conns=8", postgres.Config{})
	begin(t, s, lease1)
	var forth, back []session.Freshness
	for n := range 200 {
		attach(t, s, fmt.Sprint("run-", n))
		forth = append(forth, session.Freshness{RunID: fmt.Sprint("run-", n), Attempt: 1})
	}
	back = slices.Clone(forth)
	slices.Reverse(back)
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			fresh := forth
			if caller%2 == 0 {
				fresh = back
			}
			for round := range 20 {
				_, err := s.Freshen(t.Context(), lease1, fresh)
				assert.NoError(t, err)
				events := []int64{int64(round * 2), int64(round*2 + 1)}
				if caller%2 == 0 {
					slices.Reverse(events)
				}
				assert.NoError(t, s.Append(t.Context(), numbered(events[0]), numbered(events[1])))
			}
		})
	}
	all.Wait()
	assert.Len(t, read(t, s), 40)
}

// A cancel of a session that was freshened after it was judged does nothing.
func TestFreshenThenCancel(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t), postgres.Config{})
	begin(t, s, lease1)
	judged := attach(t, s, "run-1")
	_, err := s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}})
	require.NoError(t, err)
	done, err := s.Cancel(t.Context(), judged, cancelOf("c", "run-1"))
	require.NoError(t, err)
	assert.Equal(t, session.Changed, done, "the session was judged by its old activity")
}

// A cancel of a session whose row became unreadable after it was judged does nothing.
func TestUnreadableThenCancel(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn, postgres.Config{})
	judged := attach(t, s, "run-1")
	mustExec(t, hostPool(t, dsn), "UPDATE watchdog_sessions SET threshold = -1")
	done, err := s.Cancel(t.Context(), judged, cancelOf("c", "run-1"))
	require.NoError(t, err)
	assert.Equal(t, session.Changed, done, "a row that cannot be understood is never cancelled")
	assert.Empty(t, read(t, s))
}

// One payload that the server cannot read, such as one with \u0000, does not keep the others from being counted.
func TestHistoryOfEscapes(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t), postgres.Config{})
	for i, payload := range []string{
		`{"reason":"stall","note":"\u0000"}`, `{"reason":"stall"}`, `{"reason":"st\u0061ll"}`, `{"reason":"stall","a":"\ud800"}`,
		`{"reason":"a","reason":"stall"}`, `{"note":"\u0000"}`, `{"reason":5,"a":"\u0000"}`, `{"reason":{"reason":"stall"}}`,
		`{"Reason":"stall"}`, `{"reason":"\\u"}`,
	} {
		e := cancelOf(fmt.Sprint("cancel-", i), "run-1").Events[0]
		e.Payload = []byte(payload)
		require.NoError(t, s.Append(t.Context(), e))
	}
	got, err := s.History(t.Context(), session.HistoryQuery{From: noon, To: noon.Add(time.Microsecond), By: session.ByReason})
	require.NoError(t, err)
	want := []session.CancelCount{{Key: "", Count: 4}, {Key: `\u`, Count: 1}, {Key: "stall", Count: 5}}
	assert.Equal(t, want, got)
}
