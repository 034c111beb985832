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
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

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
		{Limit: text, Tool: text, Scope: text, Currency: text, Used: 1, Allowed: 2},
	}})
	f.end(f.begin("x"+id, text, time.Hour, session.State{Phase: text}), session.Cancelled, watchdog.StopReason(text))
	for _, kind := range []string{"hold", "release", "retry", "warning", "wrap_up", "overrun", "cancel", "interrupt"} {
		f.event("x"+id, "runtime.watchdog."+kind, start, `"reason":`+q+`,"hold":`+q+`,"note":`+q+`,"key":`+q+`,"signal":`+q+
			`,"author":`+q+`,"spend":{"limit":`+q+`,"currency":`+q+`,"used":1,"allowed":2}`)
	}
	f.event("x"+id+"/l", watchdog.EventCancel, start, `"reason":`+q+`,"parent":`+string(jsonOf("x"+id)))
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
			for _, event := range r.events() {
				for _, row := range event.Rows {
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
