package sqlite_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A refusal is the transport to a receiver that takes nothing.
type refusal struct{}

func (refusal) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
}

// A boxClock is the clock by which the times in an outbox of one notice are read: when it goes on, or is set, all of
// them are further in the past.
type boxClock struct {
	testing.TB
	db   *sql.DB
	gone time.Duration // really, in all
}

func (c *boxClock) read(column string) (at time.Time, ok bool) {
	c.Helper()
	at, err := time.Parse(timeLayout, queryAll(c, c.db, "SELECT "+column+" FROM watchdog_outbox")[0])
	return at, err == nil
}

func (c *boxClock) set(by time.Duration, columns ...string) {
	c.Helper()
	for _, column := range columns {
		if at, ok := c.read(column); ok { // what was never claimed has no time
			mustExec(c, c.db, "UPDATE watchdog_outbox SET "+column+" = '"+sqlite.FormatTime(at.Add(-by))+"'")
		}
	}
}

func (c *boxClock) setAll(by time.Duration) { c.set(by, "created_at", "due_at", "paused_at") }

// pass has the notice's pause pass.
func (c *boxClock) pass() {
	c.Helper()
	due, _ := c.read("due_at")
	paused, ok := c.read("paused_at")
	require.True(c, ok)
	c.gone += due.Sub(paused)
	c.setAll(due.Sub(paused))
}

const timeLayout = "2006-01-02 15:04:05.000000"

// A notice that was put by a clock that is wrong by a year is tried for as long as KeepFor says, and then dropped once.
func TestNoticeOfWrongClock(t *testing.T) {
	t.Parallel()
	const year, keepFor = 365 * 24 * time.Hour, 2 * notify.LeastKeepFor
	for name, test := range map[string]struct {
		wrong     time.Duration
		corrected int // after so many tries, 15 in a pause of an hour
	}{
		"right":                               {0, 0},
		"a year ahead when it was put":        {year, 0},
		"a year behind when it was put":       {-year, 0},
		"a year ahead for three tries":        {year, 3},
		"a year behind for three tries":       {-year, 3},
		"a year ahead until a pause is long":  {year, 15},
		"a year behind until a pause is long": {-year, 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			s := openWith(t, file, withOutbox)
			clock := &boxClock{TB: t, db: openPlain(t, file, "busy_timeout(10000)")}
			require.NoError(t, s.PutNotices(t.Context(), session.Notice{
				ID: "alert-1", AggregateType: "a", AggregateID: "b", Type: "c",
			}))
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
			assert.GreaterOrEqual(t, clock.gone, keepFor)
			assert.LessOrEqual(t, clock.gone, keepFor+time.Hour+time.Second)
			assert.Equal(t, 1, strings.Count(log.String(), "a notice is given up, and nobody is told of it"))
			assert.Empty(t, queryAll(t, clock.db, "SELECT event_id FROM watchdog_outbox"))
		})
	}
	t.Run("and a row of another program that says no number has waited for no time", func(t *testing.T) {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		mustExec(t, openPlain(t, file, "busy_timeout(10000)"), putBefore("poisoned"),
			"UPDATE watchdog_outbox SET waited = 'long', paused_at = 'then'")
		claimed, err := s.ClaimNotices(t.Context(), 1, time.Hour)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		assert.Zero(t, claimed[0].Waited)
	})
}
