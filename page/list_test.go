package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var (
	rowRun   = regexp.MustCompile(`data-run="([^"]*)"[^>]*?(?: data-depth="(\d+)")?>`)
	rowLimit = regexp.MustCompile(`aria-label="([^"]*) left"`)
	chosen   = regexp.MustCompile(`value="(\w+)"( checked)?><span class="badge \w+">\w+</span> <b id="count-\w+" data-swap>(\d+)<`)
)

// listed are the runs on a page of the list, in their order, each with a dot for every run that it is inside of.
func (f *fixture) listed(query string) (runs []string) {
	f.Helper()
	for _, match := range rowRun.FindAllStringSubmatch(f.shown(query), -1) {
		depth := 0
		_, _ = fmt.Sscan(match[2], &depth)
		runs = append(runs, strings.Repeat(".", depth)+html.UnescapeString(match[1]))
	}
	return runs
}

// TestFilters asks for several states at once, and for the count of each, whichever are shown.
func TestFilters(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		f.end(f.begin("s-gone", "worker-2", 0, session.State{}), session.Interrupted, "")
		f.end(f.begin("s-closed", "worker-2", 0, session.State{}), session.Finished, "")
		f.end(f.begin("s-failed", "worker-2", 0, session.State{Outcome: "failed"}), session.Finished, "complete")
		sent := &session.Escalation{Signal: "SIGINT", SentAt: time.Now(), Next: "SIGTERM", NextAt: time.Now().Add(time.Minute)}
		f.begin("s-ending", "worker-2", 0, session.State{Escalation: sent})
		for query, want := range map[string][]string{
			"?state=ending":                      {"s-ending"},
			"?state=failed":                      {"s-failed"},
			"?state=interrupted&state=finished":  {"s-gone", "s-closed"},
			"?state=stopped&state=running":       {"s-other", "s-build", "s-held", "s-late", "s-cancelled"},
			"?state=complete&state=":             {"s-complete"},
			"?state=ended":                       {"s-gone", "s-failed", "s-closed", "s-cancelled", "s-complete"},
			"?state=running&host=worker-2":       nil,
			"?state=stopped&id=S-CANC":           {"s-cancelled"},
			"?id=l&state=running&state=complete": {"s-build", "s-held", "s-late", "s-complete"},

			"?reason=watchdog_wall_clock_exceeded": {"s-cancelled"},
			"?reason=complete&host=worker-2":       {"s-complete"},
			"?reason=approval_denied":              nil,
			"?host=worker-1":                       {"s-build", "s-held", "s-late"},
		} {
			assert.ElementsMatch(t, want, f.listed(query), query)
		}
		for query, want := range map[string]string{
			"":                       "running 4, ending 1, stopped 1, failed 1, interrupted 1, complete 1, finished 1",
			"?state=failed":          "running 4, ending 1, stopped 1, failed 1 on, interrupted 1, complete 1, finished 1",
			"?host=worker-1":         "running 3, ending 0, stopped 0, failed 0, interrupted 0, complete 0, finished 0",
			"?id=s-c&state=finished": "running 0, ending 0, stopped 1, failed 0, interrupted 0, complete 1, finished 1 on",
		} {
			var counts []string
			for _, match := range chosen.FindAllStringSubmatch(f.shown(query), -1) {
				counts = append(counts, match[1]+" "+match[3]+strings.Replace(match[2], "checked", "on", 1))
			}
			assert.Equal(t, want, strings.Join(counts, ", "), query)
		}
		assert.Contains(t, f.shown("?reason=approval_denied"), "<option selected>approval_denied</option>")
		assert.Contains(t, f.shown("?state=ending"), `ending</span><span class="sub">SIGINT sent, SIGTERM next</span>`)
		assert.Contains(t, f.shown("?run=s-ending"), `, SIGTERM due at <time datetime="2000-01-01T00:26:10Z">`)
		assert.Contains(t, f.shown("?id=s-b%2Fx"), `<a href="?run=s-b%2fx">Open the run with exactly this ID</a>`)
		for _, code := range watchdog.StopReasons() {
			assert.Equal(t, code.Own(), strings.Contains(f.shown(""), "<option>"+string(code)+"</option>"), code)
		}
		f.begin("S-UPPER", "worker-4", 0, session.State{})
		assert.Equal(t, []string{"S-UPPER"}, f.listed("?id=pPe"))
		f.cfg.Rows, f.made = 2, nil
		assert.Contains(t, f.shown("?state=running&state=running&state=ended&state=stopped"),
			`rel="next" href="?page=2&amp;state=running&amp;state=stopped&amp;state=failed&amp;state=interrupted&amp;state=complete`+
				`&amp;state=finished"`, "each once")
	})
}

func TestOrder(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		for query, want := range map[string]string{
			"":                         "s-other s-build s-held s-late s-cancelled s-complete",
			"?sort=oldest":             "s-complete s-cancelled",
			"?sort=left":               "s-late s-build s-held s-other s-cancelled s-complete",
			"?sort=id":                 "s-build s-cancelled s-complete s-held s-late s-other",
			"?sort=host&state=running": "s-build s-held s-late s-other",
		} {
			got := strings.Join(f.listed(query), " ")
			if query == "?sort=oldest" {
				assert.Less(t, strings.Index(got, "s-late"), strings.Index(got, "s-build"), "it began before")
				continue
			}
			assert.Equal(t, want, got, query)
		}
		for _, query := range []string{"?sort=size", "?page=0", "?page=x", "?page=-1", "?page=99999999999999999999"} {
			assert.Equal(t, http.StatusBadRequest, f.get(query).Code, query)
		}
		f.cfg.Rows, f.made = 2, nil
		assert.Contains(t, f.shown("?page=2"), "page 2 of 3")
		assert.Equal(t, []string{"s-cancelled", "s-complete"}, f.listed("?page=3"))
		assert.Equal(t, []string{"s-cancelled", "s-complete"}, f.listed("?page=4711"), "the last, of a list that got shorter")
		assert.NotContains(t, f.shown("?state=stopped"), "page 1 of 1")
	})
}

// TestInside has runs inside of others, and some that say so and are not.
func TestInside(t *testing.T) {
	inBubble(t, func(f *fixture) {
		begin := func(runID, parent string) session.Session {
			_, s, err := f.db.Attach(f.Context(), session.Session{
				RunID: runID, Parent: parent, StartedAt: time.Now(), Lease: lease, Activity: session.NoActivity,
			})
			f.must(err)
			time.Sleep(time.Second)
			return s
		}
		begin("top", "")
		done := begin("top/1", "top")
		begin("top/1/a", "top/1")
		begin("top/2", "top")
		begin("self", "self")
		begin("left", "right")
		begin("right", "left")
		begin("lost", "nobody")
		assert.Equal(t, []string{"lost", "top", ".top/2", ".top/1", "..top/1/a", "right", ".left", "self"}, f.listed(""))
		assert.Equal(t, []string{"top/2", "top/1", ".top/1/a"}, f.listed("?id=top/"), "the run around them is not in the list")
		f.end(done, session.Finished, "complete")
		assert.Equal(t, []string{"lost", "top/1/a", "top", ".top/2", ".top/1", "right", ".left", "self"}, f.listed(""),
			"a live run is not hidden under one that has ended")
		f.cfg.Rows, f.made = 3, nil
		assert.Equal(t, []string{".top/2", ".top/1", "right"}, f.listed("?page=2"))
	})
}

// TestSets has more runs than are counted together: each is on some page, once.
func TestSets(t *testing.T) {
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	for _, c := range []struct{ live, ended, size, pages int }{
		{3, 5200, 0, 6}, {5100, 10, 0, 6}, {4990, 10, 0, 5}, {3, 2500, 5000, 4},
	} {
		inBubble(t, func(f *fixture) {
			f.cfg.Rows = 1000
			for i := range c.live + c.ended {
				s := session.Session{
					RunID: fmt.Sprintf("s-%04d", i), Status: session.Finished, CreatedAt: time.Now(), StartedAt: time.Now(), Attempt: 1,
					State: json.RawMessage(`{"phase":"` + strings.Repeat("x", c.size) + `"}`),
				}
				if i < c.live {
					s.Status = session.Active
				}
				f.must(f.db.Put(f.Context(), s))
			}
			seen, pages := map[string]bool{}, 0
			for query := "?"; query != "" && pages < 10; pages++ {
				text := f.shown(query)
				for _, match := range rowRun.FindAllStringSubmatch(text, -1) {
					require.False(t, seen[match[1]], match[1])
					seen[match[1]] = true
				}
				if pages == 4 {
					require.Contains(t, text, "page 5 of 5")
					require.Equal(t, c.pages > 5, strings.Contains(text, "Of the newest 5000 runs."))
				}
				query = ""
				if link := next.FindStringSubmatch(text); link != nil {
					query = html.UnescapeString(link[1])
				}
			}
			require.Len(t, seen, c.live+c.ended)
			require.Equal(t, c.pages, pages)
		})
	}
}

// An endless store has another page of a list, always.
type endless struct{ *database }

func (e endless) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	_, err := e.database.List(ctx, q)
	return session.ListPage{Now: time.Now(), Next: "1 s"}, err
}

func TestEndlessList(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.Sessions = endless{f.db}
		assert.Contains(t, f.shown(""), "Older runs")
		assert.LessOrEqual(t, f.db.takeLists(), 10)
	})
}

// TestNearest protects the one limit that a row shows: when another is nearer its end, readers are sent the row again,
// though nothing else has changed.
func TestNearest(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.begin("s-1", "worker-1", 0, session.State{
			WallClock: 500, Safety: 1000, Spent: []session.Spent{{Limit: "tokens", Used: 30, Allowed: 100}},
		})
		f.begin("s-2", "worker-1", 0, session.State{WallClock: 7200, Safety: 5000, Idle: 3600})
		limits := func() [][]string { return rowLimit.FindAllStringSubmatch(f.shown(""), -1) }
		require.Equal(t, "safety", limits()[0][1], "of two that are full the shorter")
		shown := func() string { return limits()[1][1] }
		r := f.join("")
		time.Sleep(149 * time.Second)
		require.Equal(t, "tokens", shown())
		require.Len(t, r.events(), 1, "nothing has changed")
		time.Sleep(2 * time.Second)
		require.Equal(t, "wall clock", shown())
		got := r.events()
		require.Len(t, got, 2, "it is sent once")
		require.Len(t, got[1].Rows, 1)
		require.Contains(t, got[1].Rows[0].HTML, `aria-label="wall clock left"`)
		require.NotContains(t, got[1].Rows[0].HTML, "tokens")
		time.Sleep(time.Hour)
		require.Len(t, r.events(), 2)
	})
	inBubble(t, func(f *fixture) {
		f.begin("s-1", "worker-1", 100*time.Second, session.State{WallClock: 1000, Safety: 500})
		r := f.join("")
		time.Sleep(95 * time.Second)
		require.Len(t, r.events(), 1, "both burn down: the slower is nearer its end for 100 seconds")
		time.Sleep(10 * time.Second)
		require.Contains(t, r.events()[1].Rows[0].HTML, `aria-label="safety left"`)
	})
	for _, state := range []session.State{
		{WallClock: 1e300, Idle: 1e-300}, {WallClock: 1e-9, Safety: 1e300, Idle: 1e-9}, {Safety: 1e18},
	} {
		inBubble(t, func(f *fixture) {
			f.begin("s-1", "worker-1", 0, state)
			r := f.join("")
			time.Sleep(time.Minute)
			require.LessOrEqual(t, len(r.events()), 3, "%+v", state)
			require.NotContains(t, f.shown("?sort=left"), "NaN")
		})
	}
}
