package page_test

import (
	"context"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A late database's clock is set back, by so much.
type late struct {
	*database
	by atomic.Int64
}

func (l *late) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	found, err := l.database.List(ctx, q)
	found.Now = found.Now.Add(-time.Duration(l.by.Load()))
	return found, err
}

var (
	noLength  = regexp.MustCompile(`tabindex="-1"|data-\w+="-?\d+"`)
	belowZero = regexp.MustCompile(`.{0,40}(>|\+|=")-\d.{0,40}`)
)

// TestClockBack sets the database's clock back: nothing has a length below zero, and no run is told of again and again.
func TestClockBack(t *testing.T) {
	for _, by := range []time.Duration{time.Second, time.Hour, 20 * 365 * 24 * time.Hour} {
		inBubble(t, func(f *fixture) {
			db := &late{database: f.db}
			f.cfg.Sessions = db
			f.fleet()
			start := time.Now()
			f.event("s-build", watchdog.EventWarning, start.Add(time.Hour), `"reason":"wall_clock","fraction":0.8`)
			r := f.join("")
			defer r.leave()
			time.Sleep(time.Second)
			db.by.Store(int64(by))
			time.Sleep(time.Minute)
			told := map[string]int{}
			for _, frame := range r.events() {
				for _, row := range frame.Rows {
					told[row.Run]++
				}
			}
			for run, times := range told {
				assert.LessOrEqual(t, times, 1, run)
			}
			for _, query := range []string{"", "?state=ended", "?run=s-build", "?run=s-late", "?run=s-cancelled"} {
				text := noLength.ReplaceAllString(f.shown(query), "")
				assert.Empty(t, belowZero.FindString(text), "%s at -%v", query, by)
			}
		})
	}
}
