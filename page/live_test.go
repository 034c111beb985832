package page_test

import (
	"bufio"
	"context"
	"errors"
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
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
)

func TestReaders(t *testing.T) {
	bubble(t, "without readers nothing is asked", func(f *fixture) {
		f.fleet()
		f.page()
		time.Sleep(time.Hour)
		require.Zero(f, f.db.takeLists())
		r := f.join("")
		time.Sleep(10 * time.Second)
		require.InDelta(f, 21, f.db.takeLists(), 1, "twice a second")
		r.leave()
		time.Sleep(time.Second)
		f.db.takeLists()
		time.Sleep(time.Hour)
		require.Zero(f, f.db.takeLists())
	})
	bubble(t, "many readers cost what one costs", func(f *fixture) {
		for range 50 {
			f.join("")
		}
		time.Sleep(time.Second)
		f.db.takeLists()
		time.Sleep(10 * time.Second)
		require.InDelta(f, 20, f.db.takeLists(), 1)
	})
	bubble(t, "a new one gets the present state", func(f *fixture) {
		f.fleet()
		r := f.watch()
		got := r.events()
		require.Len(f, got, 1)
		require.True(f, got[0].All)
		require.Equal(f, time.Now().Add(-time.Second).UnixMilli(), got[0].Now)
		list := f.shown("")
		require.Len(f, got[0].Present, 4)
		for run, version := range got[0].Present {
			require.Contains(f, list, fmt.Sprintf("data-run=%q data-version=%q data-live", run, version))
		}
	})
	bubble(t, "one that comes again gets it unless it has missed nothing", func(f *fixture) {
		f.join("")
		first := f.watch()
		last := first.events()[0].ID
		first.leave()
		again := f.join(last)
		time.Sleep(time.Second)
		require.Empty(f, again.events())
		again.leave()
		f.begin("s-1", "worker-1", 0, session.State{})
		time.Sleep(time.Second)
		again = f.join(last)
		time.Sleep(time.Second)
		require.True(f, again.events()[0].All)
		require.Contains(f, again.events()[0].Present, "s-1")
	})
	bubble(t, "what nobody was there for is not taken for seen", func(f *fixture) {
		r := f.watch()
		last := r.events()[0].ID
		r.leave()
		f.begin("s-1", "worker-1", 0, session.State{})
		again := f.join(last)
		time.Sleep(time.Second)
		require.Len(f, again.events(), 1)
	})
	bubble(t, "there are only so many", func(f *fixture) {
		f.cfg.MaxReaders = 2
		one := f.join("")
		f.join("")
		three := f.join("")
		require.True(f, three.gone())
		require.Equal(f, http.StatusServiceUnavailable, three.status)
		require.NotEmpty(f, three.header.Get("Retry-After"))
		one.leave()
		four := f.join("")
		require.False(f, four.gone())
	})
	bubble(t, "one behind a wrapper that cannot flush is told so", func(f *fixture) {
		w := httptest.NewRecorder()
		plain := struct{ http.ResponseWriter }{w}
		f.page().ServeHTTP(plain, httptest.NewRequest(http.MethodGet, "/?live", nil))
		require.Equal(f, http.StatusNotImplemented, w.Code)
	})
	bubble(t, "closing the page ends them", func(f *fixture) {
		r := f.join("")
		require.NoError(f, f.page().Close())
		synctest.Wait()
		require.True(f, r.gone())
		late := f.join("")
		require.Equal(f, http.StatusServiceUnavailable, late.status)
		require.Equal(f, http.StatusOK, f.get("").Code, "pages are served as before")
	})
}

func TestFrames(t *testing.T) {
	bubble(t, "a run that begins, changes and ends is told of at once, once, and to all", func(f *fixture) {
		r, other := f.join(""), f.join("")
		time.Sleep(time.Second)
		s := f.begin("s-1", "worker-1", 0, session.State{Phase: "reading"})
		time.Sleep(time.Second)
		_, err := f.db.Freshen(f.Context(), lease, []session.Freshness{{
			RunID: "s-1", Attempt: 1, Activity: time.Second, State: []byte(`{"phase":"writing"}`),
		}})
		f.must(err)
		time.Sleep(time.Second)
		f.end(s, session.Cancelled, watchdog.CostExceeded)
		ended := time.Now()
		time.Sleep(time.Second)
		got := r.events()[1:]
		require.Len(f, got, 3)
		for i, want := range []string{"reading", "writing", "it reached its limit of cost"} {
			require.Len(f, got[i].Rows, 1)
			require.Equal(f, "s-1", got[i].Rows[0].Run)
			require.Contains(f, got[i].Rows[0].HTML, want)
			require.Equal(f, i < 2, got[i].Rows[0].Live)
		}
		require.Equal(f, "stopped: it reached its limit of cost", got[2].Rows[0].Said)
		require.LessOrEqual(f, got[2].At.Sub(ended), 500*time.Millisecond)
		require.Equal(f, r.events()[1:], other.events()[1:], "frames are shared")
	})
	bubble(t, "they come twice a second, however much changes", func(f *fixture) {
		r := f.join("")
		for i := range 2000 {
			f.begin(fmt.Sprintf("s-%d", i%500), "worker-1", 0, session.State{Phase: fmt.Sprint(i)})
			time.Sleep(5 * time.Millisecond)
		}
		got := r.events()
		require.InDelta(f, 20, len(got), 2, "in ten seconds")
		for i := 2; i < len(got); i++ {
			require.GreaterOrEqual(f, got[i].At.Sub(got[i-1].At), 500*time.Millisecond)
		}
	})
	bubble(t, "a slow database is asked more seldom", func(f *fixture) {
		f.db.set(nil, 200*time.Millisecond)
		f.join("")
		time.Sleep(time.Minute)
		require.LessOrEqual(f, f.db.takeLists(), 16, "a twentieth of the time")
	})
	bubble(t, "a database that does not answer is told of once, and its return", func(f *fixture) {
		r := f.watch()
		f.db.set(errors.New("no route to host"), 0)
		time.Sleep(10 * time.Second)
		f.db.set(nil, 0)
		time.Sleep(time.Second)
		got := r.events()
		require.Len(f, got, 3)
		require.True(f, got[1].Trouble)
		require.True(f, got[2].All)
		require.False(f, got[2].Trouble)
		require.Equal(f, 1, strings.Count(f.log.String(), "no route to host"))
	})
	bubble(t, "a row is not sent because time goes by", func(f *fixture) {
		f.fleet()
		r := f.join("")
		time.Sleep(10 * time.Minute)
		require.Len(f, r.events(), 1)
		require.Contains(f, r.got(), "\n:\n\n", "but a sign that the connection lives")
	})
}

// stop has the reader take nothing any more.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck = true
}

func TestSlowReaders(t *testing.T) {
	bubble(t, "one that takes nothing is given up at the deadline", func(f *fixture) {
		slow, good := f.join(""), f.join("")
		time.Sleep(time.Second)
		slow.stop()
		for i := range 20 {
			f.begin(fmt.Sprint("s-", i), "worker-1", 0, session.State{})
			time.Sleep(time.Second)
		}
		assert.True(f, slow.gone())
		assert.Len(f, good.events(), 21, "the others miss nothing")
	})
	bubble(t, "and before that it has no more than four frames in line", func(f *fixture) {
		f.cfg.MaxReaders = 1
		slow := f.watch()
		slow.stop()
		for i := range 6 {
			f.begin(fmt.Sprint("s-", i), "worker-1", 0, session.State{})
			time.Sleep(600 * time.Millisecond)
		}
		require.False(f, slow.gone(), "its write is still under way")
		next := f.join("")
		require.Equal(f, http.StatusOK, next.status, "its place is free")
	})
}

func TestSilence(t *testing.T) {
	bubble(t, "a quiet run is told of once, however seldom its lease is renewed", func(f *fixture) {
		s := f.begin("s-1", "worker-1", 0, session.State{Idle: 3600})
		r := f.join("")
		began := time.Now()
		time.Sleep(2 * time.Minute)
		_, err := f.db.Freshen(f.Context(), lease, []session.Freshness{{
			RunID: "s-1", Attempt: s.Attempt, Activity: time.Second, Quiet: true,
		}})
		f.must(err)
		for beat := range 20 {
			clock := time.Since(began)
			f.must(f.db.RenewLease(f.Context(), session.Lease{ID: lease, Beat: int64(beat) + 2, Clock: clock, Vouched: clock}))
			time.Sleep(100 * time.Second)
		}
		got := r.events()
		require.Len(f, got, 2)
		require.Contains(f, got[1].Rows[0].HTML, "data-since")
	})
	bubble(t, "one that woke up and whose row cannot be written is told of", func(f *fixture) {
		s := f.begin("s-1", "worker-1", 0, session.State{Idle: 3600})
		_, err := f.db.Freshen(f.Context(), lease, []session.Freshness{{RunID: "s-1", Attempt: s.Attempt, Quiet: true}})
		f.must(err)
		r := f.join("")
		const says = "its row cannot be written"
		require.NotContains(f, f.shown(""), says)
		f.must(f.db.RenewLease(f.Context(), session.Lease{
			ID: lease, Beat: 2, Clock: time.Hour, Covered: time.Hour, Behind: []session.RowBehind{{RunID: "s-1", Attempt: s.Attempt}},
		}))
		time.Sleep(10 * time.Second)
		got := r.events()
		require.Len(f, got, 2)
		require.Contains(f, got[1].Rows[0].HTML, says)
		require.Contains(f, f.shown(""), says)
		require.Contains(f, f.shown(runQuery("s-1")), "its process cannot write its row")
	})
	bubble(t, "nor is one without a lease told of while it is silent", func(f *fixture) {
		begun := session.Session{RunID: "s-1", State: []byte(`{"idle_seconds":3600}`)}
		_, _, err := f.db.Attach(f.Context(), begun)
		f.must(err)
		r := f.join("")
		time.Sleep(10 * time.Minute)
		require.Len(f, r.events(), 1)
	})
}

// TestVanishedReader has a reader go away over a real connection: its request ends, and nothing is asked any more.
func TestVanishedReader(t *testing.T) {
	db := &database{}
	p, err := page.New(page.Config{Sessions: db, Events: db})
	require.NoError(t, err)
	server := httptest.NewServer(p)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"?live", nil)
	require.NoError(t, err)
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	require.True(t, response.Close, "its deadline is no other request's")
	first, err := bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "retry: 2000\n", first)
	require.Eventually(t, func() bool { return db.takeLists() > 0 }, 10*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, response.Body.Close())
	require.Eventually(t, func() bool {
		db.takeLists()
		time.Sleep(2 * time.Second)
		return db.takeLists() == 0
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, p.Close())
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
			f.event("s-build", event.Warning, start.Add(time.Hour), `"reason":"wall_clock","fraction":0.8`)
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
