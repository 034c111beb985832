package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
)

// TestManyEvents protects the page of a run among many: where more runs have events at once than a frame names, it says
// that there are others.
func TestManyEvents(t *testing.T) {
	burst := func(f *fixture, n int) sent {
		r := f.watch()
		for i := range n + 1 {
			f.must(f.db.Append(f.Context(), watchdog.Event{
				ID: fmt.Sprint("e", i), AggregateType: watchdog.AggregateType, AggregateID: fmt.Sprintf("s-%06d", i), Type: watchdog.EventRetry,
				Payload: []byte(`{}`), Timestamp: time.Now(),
			}))
			if i == 0 {
				synctest.Wait() // the next look comes after the others
			}
		}
		time.Sleep(time.Second)
		got := r.events()
		require.Len(f, got, 3)
		return got[2]
	}
	for n, others := range map[int]bool{1: false, 200: false, 201: true, 5000: true} {
		inBubble(t, func(f *fixture) {
			frame := burst(f, n)
			assert.Len(t, frame.Runs, min(n, 200))
			assert.Equal(t, others, frame.Others, n)
		})
	}
}

// TestCrowd has readers come that never read, three times as many as there may be.
func TestCrowd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var all []*reader
		served := 0
		for range 200 {
			r := f.join("")
			r.stop()
			all = append(all, r)
			if r.status == http.StatusOK {
				served++
			}
		}
		assert.Equal(t, page.DefaultMaxReaders, served)
		for i := range 20 {
			f.begin(fmt.Sprint("s-", i), "worker-1", 0, session.State{})
			assert.Equal(t, http.StatusOK, f.get("").Code, "pages are served as before")
			time.Sleep(time.Second)
		}
		for _, r := range all {
			assert.True(t, r.gone())
		}
		good := f.watch()
		assert.Len(t, good.events(), 1)
		f.db.takeLists()
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 20, f.db.takeLists(), 1, "one look for all, as ever")
	})
}

// TestReconnects has readers come again with whatever they say they had last, and go at once.
func TestReconnects(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		other := f.watch()
		known := other.events()[0].ID
		for _, last := range append(hostile, "", "0", "-1", known+"0", strings.ToUpper(known)+"x", strings.Repeat("9", 1<<20), "\r\nid: x", "\x00") {
			r := f.join(last)
			time.Sleep(time.Second)
			got := r.events()
			require.Len(t, got, 1, "%.20q", last)
			require.True(t, got[0].All)
			require.Len(t, got[0].Present, 4)
			r.leave()
		}
		for range 1000 {
			f.join(known).leave()
		}
		time.Sleep(time.Second)
		require.Len(t, other.events(), 1, "the others see nothing of it")
	})
}

// TestComingAndGoing has readers come and go while the page is closed.
func TestComingAndGoing(t *testing.T) {
	for range 20 {
		p, err := page.New(page.Config{Sessions: &session.Memory{}, Events: &session.Memory{}, MaxReaders: 20})
		require.NoError(t, err)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
					p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/?live", nil))
					cancel()
				}
			})
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, p.Close())
		all.Wait()
	}
}

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
			r := f.watch()
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
