//go:build linux

package histories_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
)

var alert = session.Notice{ID: "alert-1", AggregateType: "sweeper", AggregateID: "host-1", Type: "lease.lost"}

// claim claims all that is due, and returns the IDs with the numbers of the tries.
func (p place) claim(s whole, lasts time.Duration) (claimed []string) {
	p.Helper()
	all, err := s.ClaimNotices(p.Context(), 1000, lasts)
	require.NoError(p, err)
	for _, n := range all {
		claimed = append(claimed, fmt.Sprint(n.ID, " ", n.Tries))
	}
	return claimed
}

// put puts the end of a run as another program can.
func (p place) put(id string) {
	p.Helper()
	p.exec(fmt.Sprintf(`INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
		VALUES ('%s', '%s', 'run-1', '%s', '2026-01-02 03:04:05.000006')`, id, watchdog.AggregateType, watchdog.EventCancel))
}

func (p place) inOutbox() []string {
	return p.query("SELECT event_id FROM watchdog_outbox ORDER BY id")
}

func noOutbox(p place) {
	s := p.open(false)
	_, err := s.ClaimNotices(p.Context(), 1, time.Hour)
	for _, err := range []error{
		err, s.PutNotices(p.Context(), alert), s.FinishNotices(p.Context(), alert), s.DelayNotice(p.Context(), alert, time.Hour),
	} {
		require.ErrorIs(p, err, session.ErrNoOutbox)
		require.ErrorContains(p, err, "set Outbox in its configuration")
	}
}

// Each end is in the outbox once, however it was stored, if it is on, and in the transaction that stores it.
func outbox(p place) {
	off, on := p.open(false), p.open(true)
	ends := func(s whole, prefix string) {
		p.Helper()
		more, complete, theirs := endOf(prefix+"more"), endOf(prefix+"2"), endOf(prefix+"theirs")
		more.Type, complete.Type, theirs.AggregateType = watchdog.EventExtend, watchdog.EventComplete, "theirs"
		for range 2 {
			require.NoError(p, s.Append(p.Context(), more, endOf(prefix+"1"), endOf(prefix+"1"), theirs))
			require.NoError(p, s.Transact(p.Context(), &watchdog.Exchange{
				Selection: watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: "run-1"},
				Decide:    func([]watchdog.Event) []watchdog.Event { return []watchdog.Event{endOf(prefix + "1"), complete} },
			}))
		}
		_, err := s.Cancel(p.Context(), p.attach(s, prefix+"run", ""), session.CancelRequest{
			Events: []watchdog.Event{endOf(prefix + "3")},
		})
		require.NoError(p, err)
	}
	ends(off, "off ")
	require.Empty(p, p.inOutbox())
	ends(on, "on ")
	want := []string{"on 1", "on 2", "on 3"}
	require.Equal(p, want, p.inOutbox())
	require.Equal(p, []string{
		"runtime_control run-1 runtime.watchdog.cancel", "runtime_control run-1 runtime.watchdog.complete",
		"runtime_control run-1 runtime.watchdog.cancel",
	}, p.query("SELECT aggregate_type || ' ' || aggregate_id || ' ' || event_type FROM watchdog_outbox ORDER BY id"))

	p.refuse("watchdog_sessions", "new.status = 'cancelled'")
	_, err := on.Cancel(p.Context(), p.attach(on, "kept", ""), session.CancelRequest{Events: []watchdog.Event{endOf("kept")}})
	require.ErrorContains(p, err, "the host keeps it")
	require.Equal(p, want, p.inOutbox(), "an end whose transaction was rolled back")
	p.exec("DROP TABLE watchdog_sessions")
	p.refuse("watchdog_outbox", "new.event_id = 'refused'")
	require.ErrorContains(p, on.Append(p.Context(), endOf("refused")), "the host keeps it")
	require.Empty(p, p.query("SELECT id FROM events WHERE id IN ('kept', 'refused')"))
}

func notices(p place) {
	writer, sender := p.open(true), p.open(true)
	require.NoError(p, writer.Append(p.Context(), endOf("end-1")))
	p.put("twice")
	p.put("twice")
	p.put("poisoned")
	p.exec(p.poison)
	require.Equal(p, []string{"end-1 1", "twice 1", "twice 1", "poisoned 1"}, p.claimAny(sender))
	require.Empty(p, p.claim(sender, time.Hour), "claimed for ever")
	require.NoError(p, sender.FinishNotices(p.Context(), session.Notice{ID: "twice"}, session.Notice{ID: "end-1"}))
	require.Equal(p, []string{"poisoned"}, p.inOutbox())
}

// claimAny claims all for ever. Of rows that say no number it is known how often they were tried, and no time.
func (p place) claimAny(s whole) (claimed []string) {
	p.Helper()
	all, err := s.ClaimNotices(p.Context(), 1000, watchdog.NoLimit)
	require.NoError(p, err)
	for _, n := range all {
		require.Zero(p, n.Waited)
		claimed = append(claimed, fmt.Sprint(n.ID, " ", n.Tries))
	}
	return claimed
}

// Claims of which none is due cost no write.
func idleClaims(p place) {
	s := p.open(true)
	require.NoError(p, s.Append(p.Context(), endOf("end-1")))
	require.Equal(p, []string{"end-1 1"}, p.claim(s, time.Hour))
	// PostgreSQL counts the writes of all databases of its server.
	require.Eventually(p, func() bool {
		before := p.query(p.written)
		require.Empty(p, p.claim(s, time.Hour))
		return before[0] == p.query(p.written)[0]
	}, patience, time.Millisecond)
	before := p.query(p.written)
	require.NoError(p, s.FinishNotices(p.Context(), session.Notice{ID: "end-1"}))
	require.NotEqual(p, before, p.query(p.written), "what is written shows")
}

// A refusal is the transport to a receiver that takes nothing.
type refusal struct{}

func (refusal) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
}

// A boxClock is the clock by which the times in an outbox of one notice are read: when it goes on, or is set, all of
// them are further in the past.
type boxClock struct {
	place
	gone time.Duration // really, in all
}

const timeLayout = "2006-01-02 15:04:05.000000"

// read returns a time of the notice, zero if it has none.
func (c *boxClock) read(column string) (at time.Time) {
	c.Helper()
	var found any
	require.NoError(c, c.db.QueryRowContext(c.Context(), "SELECT "+column+" FROM watchdog_outbox").Scan(&found))
	switch found := found.(type) {
	case time.Time:
		at = found
	case string:
		at, _ = time.Parse(timeLayout, found)
	}
	return at
}

func (c *boxClock) set(by time.Duration, columns ...string) {
	c.Helper()
	for _, column := range columns {
		if at := c.read(column); !at.IsZero() {
			c.exec("UPDATE watchdog_outbox SET " + column + " = '" + at.Add(-by).UTC().Format(timeLayout) + "'")
		}
	}
}

func (c *boxClock) setAll(by time.Duration) { c.set(by, "created_at", "due_at", "paused_at") }

// pass has the notice's pause pass.
func (c *boxClock) pass() {
	c.Helper()
	pause := c.read("due_at").Sub(c.read("paused_at"))
	c.gone += pause
	c.setAll(pause)
}

// A notice that was put by a clock that is wrong by a year is tried for as long as KeepFor says, and then dropped once.
func wrongClocks(p place) {
	const year, keepFor = 365 * 24 * time.Hour, 2 * notify.LeastKeepFor
	s := p.open(true)
	for _, test := range []struct {
		name      string
		wrong     time.Duration
		corrected int // after so many tries, 15 in a pause of an hour
	}{
		{"right", 0, 0},
		{"a year ahead when it was put", year, 0},
		{"a year behind when it was put", -year, 0},
		{"a year ahead for three tries", year, 3},
		{"a year behind for three tries", -year, 3},
		{"a year ahead until a pause is long", year, 15},
		{"a year behind until a pause is long", -year, 15},
	} {
		p.Run(test.name, func(t *testing.T) {
			require.NoError(t, s.PutNotices(t.Context(), alert))
			p := p
			p.T = t
			clock := &boxClock{place: p}
			if test.corrected == 0 {
				clock.set(-test.wrong, "created_at")
			}
			var log bytes.Buffer
			sender, err := notify.New(s, s, notify.Config{
				URL: "https://hooks.example.com/x", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
				Transport: refusal{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), KeepFor: keepFor,
			})
			require.NoError(t, err)
			for try := 1; ; try++ {
				d, _ := sender.Deliver(t.Context())
				if d.Dropped > 0 {
					break
				}
				require.Equal(t, notify.Delivery{Delayed: 1}, d, "try %d", try)
				if try == test.corrected {
					clock.setAll(-test.wrong)
				}
				if try != test.corrected || test.wrong == 0 {
					clock.pass()
				}
			}
			require.GreaterOrEqual(t, clock.gone, keepFor)
			require.LessOrEqual(t, clock.gone, keepFor+time.Hour+time.Second)
			require.Equal(t, 1, strings.Count(log.String(), "a notice is given up, and nobody is told of it"))
			require.Empty(t, p.inOutbox())
		})
	}
}
