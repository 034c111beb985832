package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
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

// hostile are texts that others choose.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "` onload=`alert(1)",
	`javascript:alert(1)`, `{{.}}`, `{{template "row"}}`, `</title></style></script></svg><b>`, `<!--`, `-->`, `]]>`,
	"\u202egnp.exe", "\u2066x\u2069", `../../?x=1&y=2#z`, `&lt;b&gt;`, `&#34;`, "x\u2028\u2029y", `-rf`, `\`, `%00%3c`, "+",
	"a\x01\x07\x1b[31mred\x7f", "a\r\nid: 9\r\n\r\ndata: {}\r\n\r\nb", "\u200f\u202b\u202d\u061c", "__proto__", "constructor",
	strings.Repeat("\u202e", 250), strings.Repeat("界", 250), strings.Repeat("W", 250), "a\u0301\u0301", `data: x`, "id: 7",
}

// A tag is what a page has between < and >.
var (
	tag       = regexp.MustCompile(`<(/?[a-zA-Z!][\w:!-]*)((?:\s+[\w:-]+(?:="[^"]*")?)*)\s*/?>`)
	attribute = regexp.MustCompile(`([\w:-]+)(?:="[^"]*")?`)
)

// skeleton is the structure of a page: its tags with the names of their attributes. Text has no part in it. What is
// left of < and > besides tags is an error.
func skeleton(t *testing.T, text string) (tags []string) {
	t.Helper()
	rest := tag.ReplaceAllStringFunc(text, func(whole string) string {
		match := tag.FindStringSubmatch(whole)
		one := match[1]
		for _, name := range attribute.FindAllStringSubmatch(match[2], -1) {
			one += " " + name[1]
		}
		tags = append(tags, one)
		return ""
	})
	require.NotContains(t, rest, "<", "what is no tag is text")
	return tags
}

// says fills a database with runs that have a text wherever others choose one, and returns every page of them.
func (f *fixture) says(text string) (pages []string) {
	f.Helper()
	start := time.Now()
	quoted, err := json.Marshal(record.Note(text))
	f.must(err)
	q := string(quoted)
	if len([]rune(text)) > 200 {
		text = string([]rune(text)[:200])
	}
	id := strings.Map(func(r rune) rune { // no store takes one with control characters
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	f.begin("-"+id, text, time.Hour, session.State{WallClock: 14400, Phase: text, Spent: []session.Spent{
		{Limit: text, Tool: text, Currency: text, Used: 1, Allowed: 2},
	}})
	f.end(f.begin("x"+id, text, time.Hour, session.State{Phase: text}), session.Cancelled, watchdog.StopReason(text))
	for _, kind := range []string{"hold", "release", "retry", "warning", "wrap_up", "overrun", "cancel", "interrupt"} {
		f.event("x"+id, "runtime.watchdog."+kind, start, `"reason":`+q+`,"hold":`+q+`,"note":`+q+`,"key":`+q+`,"signal":`+q+
			`,"author":`+q+`,"spend":{"limit":`+q+`,"currency":`+q+`,"used":1,"allowed":2}`)
	}
	f.event("x"+id+"/l", event.Cancel, start, `"reason":`+q+`,"parent":`+string(jsonOf("x"+id)))
	f.cfg.PassLog = &page.PassLog{}
	f.cfg.PassLog.Add(sweep.Pass{Cases: []sweep.Case{{
		Session: session.Session{RunID: id, Host: text}, Handling: sweep.Handling(text),
	}}})
	for _, query := range []string{
		"", "?state=ended", "?view=sweeper", runQuery("-" + id), runQuery("x" + id), runQuery("x" + id + "/l"),
	} {
		pages = append(pages, f.shown(query))
	}
	for _, query := range []string{"?host=", "?reason=", "?state=", "?run=none", "?view=", "?after="} {
		pages = append(pages, f.get(query+strings.TrimPrefix(runQuery(text), "?run=")).Body.String())
	}
	return pages
}

func jsonOf(text string) []byte {
	quoted, _ := json.Marshal(text)
	return quoted
}

// skeletons are those of all pages that have a text.
func skeletons(t *testing.T, text string) (all [][]string) {
	t.Helper()
	inBubble(t, func(f *fixture) {
		for _, one := range f.says(text) {
			all = append(all, skeleton(t, one))
		}
	})
	return all
}

// TestHostileTexts protects readers from what runs are named and say: whatever the text, a page has the same tags and
// attributes as with a plain one.
func TestHostileTexts(t *testing.T) {
	plain := skeletons(t, "plain")
	for _, text := range hostile {
		t.Run(text[:min(len(text), 20)], func(t *testing.T) {
			for i, got := range skeletons(t, text) {
				require.Equal(t, plain[i], got, "page %d", i)
			}
		})
	}
	t.Run("it is all there as text", func(t *testing.T) {
		for _, text := range hostile {
			inBubble(t, func(f *fixture) {
				if len([]rune(text)) > 200 || strings.ContainsFunc(text, unicode.IsControl) {
					return // says cuts it
				}
				pages := f.says(text)
				require.Contains(t, html.UnescapeString(pages[0]), "<bdi>-"+text+"</bdi>")
			})
		}
	})
}

// TestHostileFrames does the same with what readers are sent: an event of it is one line of JSON.
func TestHostileFrames(t *testing.T) {
	rows := func(t *testing.T, text string) (tags [][]string) {
		inBubble(t, func(f *fixture) {
			r := f.watch()
			f.says(text)
			time.Sleep(time.Second)
			for _, e := range r.events() {
				for _, row := range e.Rows {
					tags = append(tags, skeleton(t, row.HTML))
				}
			}
		})
		slices.SortFunc(tags, slices.Compare)
		return tags
	}
	plain := rows(t, "plain")
	require.NotEmpty(t, plain)
	for _, text := range hostile {
		require.Equal(t, plain, rows(t, text), text)
	}
}

func FuzzHostileTexts(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	var plain [][]string
	f.Fuzz(func(t *testing.T, text string) {
		if (watchdog.Event{
			ID: "e", AggregateType: "a", AggregateID: text, Type: "t", Payload: []byte("{}"), Timestamp: time.Unix(1, 0),
		}).Validate() != nil {
			t.Skip("no store takes such an ID")
		}
		if plain == nil {
			plain = skeletons(t, "plain")
		}
		got := skeletons(t, text)
		for i := range plain {
			if i < 6 { // the others find runs or not, depending on the text
				require.Equal(t, plain[i], got[i])
			}
		}
	})
}

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
		bubble(t, name, func(f *fixture) {
			f.begin("s-1", "worker-1", 0, session.State{})
			over := make(chan struct{})
			bad := rogue{f.db, func() { store.do(over) }}
			f.cfg.Sessions, f.cfg.Events = bad, bad
			for _, query := range []string{"", "?run=s-1", "?view=sweeper", "?state=ended"} {
				began := time.Now()
				w := f.get(query)
				assert.Equal(f, http.StatusServiceUnavailable, w.Code, query)
				assert.Contains(f, w.Body.String(), "The database does not answer.")
				assert.LessOrEqual(f, time.Since(began), store.bound, query)
			}
			r := f.join("")
			time.Sleep(10 * time.Second)
			got := r.events()
			require.NotEmpty(f, got)
			assert.True(f, got[0].Trouble)
			began := time.Now()
			require.NoError(f, f.page().Close())
			assert.LessOrEqual(f, time.Since(began), 2*time.Second)
			<-r.done
			assert.NotContains(f, f.log.String(), secret, "what a panic says may be a secret")
			close(over)
			synctest.Wait()
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

// TestHostileCounts has numbers of another program in a row: nothing seems left that is not.
func TestHostileCounts(t *testing.T) {
	const most = 1<<63 - 1
	for _, spent := range []session.Spent{
		{Used: most, Admitted: most, Allowed: 100}, {Used: most, Admitted: 102, Allowed: 100}, {Used: 101, Allowed: 100}, {Used: 1, Allowed: -most},
		{Used: most, Admitted: most, Allowed: most, Reserve: -most}, {Allowed: 0, Reserve: 5, WarnAt: []float64{1e300, -1e300}},
	} {
		inBubble(t, func(f *fixture) {
			spent.Limit = "tokens"
			f.begin("s-1", "h", 0, session.State{Spent: []session.Spent{spent}})
			text := f.shown("")
			assert.Contains(t, text, `class="left" width="0"`, "%+v", spent)
			assert.Contains(t, text, "limit spent")
			assert.NotContains(t, text, "NaN")
		})
	}
}

// TestHugePass protects the sweeper, which waits for its log: a pass that acted on very many runs is kept as soon as
// any.
func TestHugePass(t *testing.T) {
	cases := make([]sweep.Case, 200_000)
	for i := range cases {
		cases[i].Session.RunID = fmt.Sprint("s-", i)
	}
	log := &page.PassLog{}
	began := time.Now()
	log.Add(sweep.Pass{Cases: cases})
	require.Less(t, time.Since(began), 5*time.Second)
	inBubble(t, func(f *fixture) {
		f.cfg.PassLog = log
		text := f.shown("?view=sweeper")
		require.Equal(t, 200, strings.Count(text, `<a href="?run=s-`))
		require.Less(t, strings.Index(text, "s-199999<"), strings.Index(text, "s-199800<"), "the latest first")
	})
}
