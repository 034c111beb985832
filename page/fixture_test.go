package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = "lease-1"

// A database is a Memory that counts its lists, and fails them if it is told to.
type database struct {
	session.Memory

	mu    sync.Mutex
	lists int
	down  error
	slow  time.Duration
}

func (d *database) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	d.mu.Lock()
	d.lists++
	down, slow := d.down, d.slow
	d.mu.Unlock()
	time.Sleep(slow)
	if down != nil {
		return session.ListPage{}, down
	}
	return d.Memory.List(ctx, q)
}

func (d *database) set(down error, slow time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down, d.slow = down, slow
}

// takeLists returns how many lists there were since its last call.
func (d *database) takeLists() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.lists
	d.lists = 0
	return n
}

// A fixture is a database with a page over it. It lives in a synctest bubble.
type fixture struct {
	*testing.T
	db   *database
	cfg  page.Config
	log  bytes.Buffer
	made *page.Page
}

func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, db: &database{}}
		f.cfg = page.Config{Sessions: f.db, Events: f.db, Logger: slog.New(slog.NewTextHandler(&f.log, nil))}
		f.must(f.db.BeginLease(f.Context(), session.Lease{ID: lease, Host: "worker-1", Promise: 10 * time.Second, Beat: 1}))
		test(f)
		f.must(f.page().Close())
	})
}

// bubble runs a subtest in a bubble.
func bubble(t *testing.T, name string, test func(f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

func (f *fixture) must(err error) {
	f.Helper()
	require.NoError(f, err)
}

func (f *fixture) page() *page.Page {
	f.Helper()
	if f.made == nil {
		var err error
		f.made, err = page.New(f.cfg)
		f.must(err)
	}
	return f.made
}

// get returns the answer to a request for a query.
func (f *fixture) get(query string) *httptest.ResponseRecorder {
	f.Helper()
	return ask(f.page(), http.MethodGet, "/"+query)
}

// ask returns the answer of a handler to a request.
func ask(handler http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

// shown returns the page of a query, which must be there.
func (f *fixture) shown(query string) string {
	f.Helper()
	w := f.get(query)
	require.Equal(f, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// shows checks that a text has parts, and none of those that begin with an exclamation mark.
func shows(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if absent, not := strings.CutPrefix(part, "!"); not {
			assert.NotContains(t, text, absent)
		} else {
			assert.Contains(t, text, part)
		}
	}
}

func runQuery(runID string) string { return "?run=" + url.QueryEscape(runID) }

// begin begins a live run whose window began some time ago.
func (f *fixture) begin(runID, host string, age time.Duration, state session.State) session.Session {
	f.Helper()
	text, err := json.Marshal(state)
	f.must(err)
	_, s, err := f.db.Attach(f.Context(), session.Session{
		RunID: runID, Host: host, StartedAt: time.Now().Add(-age), Lease: lease, State: text,
		Activity: session.NoActivity,
	})
	f.must(err)
	return s
}

// end ends a run in its row.
func (f *fixture) end(s session.Session, status session.Status, reason watchdog.StopReason) {
	f.Helper()
	_, err := f.db.End(f.Context(), []session.Ending{{RunID: s.RunID, Attempt: s.Attempt, Status: status, Reason: reason}})
	f.must(err)
}

// event appends an event of a run whose window began at start, and returns its ID.
func (f *fixture) event(runID, kind string, start time.Time, fields string) (id string) {
	f.Helper()
	id = fmt.Sprintf("e-%d", time.Now().UnixNano())
	payload := fmt.Sprintf(`{"session_started_at":%q`, start.UTC().Format(time.RFC3339Nano))
	if kind == event.Cancel {
		payload += fmt.Sprintf(`,"fired_at":%q`, time.Now().UTC().Format(time.RFC3339Nano))
	}
	if fields != "" {
		payload += "," + fields
	}
	f.must(f.db.Append(f.Context(), watchdog.Event{
		ID: id, AggregateType: event.AggregateType, AggregateID: runID,
		Type: kind, Payload: json.RawMessage(payload + "}"), Timestamp: time.Now(),
	}))
	time.Sleep(time.Second)
	return id
}

// fleet is a database with runs of all kinds.
func (f *fixture) fleet() {
	f.Helper()
	start := time.Now()
	f.end(f.begin("s-complete", "worker-2", 0, session.State{}), session.Finished, "complete")
	f.event("s-complete", event.Complete, start, `"reason":"complete","elapsed_seconds":754,"note":"all tests pass"`)
	start = time.Now()
	cancelled := f.begin("s-cancelled", "worker-2", 0, session.State{WallClock: 14400})
	opening := f.event("s-cancelled", event.Hold, start, `"hold":"approval","cap_seconds":7200`)
	time.Sleep(20 * time.Minute)
	f.event("s-cancelled", event.Release, start, `"hold":"approval","opening":"`+opening+`"`)
	f.event("s-cancelled", event.Warning, start,
		`"reason":"wall_clock","elapsed_seconds":11520,"configured_budget_seconds":14400,"fraction":0.8,"remaining_seconds":2880`)
	f.event("s-cancelled/build", event.Cancel, start,
		`"reason":"no_output","elapsed_seconds":300,"configured_budget_seconds":300,"parent":"s-cancelled","window":"w1"`)
	time.Sleep(5 * time.Minute)
	f.event("s-cancelled", event.WrapUp, start,
		`"reason":"wall_clock","elapsed_seconds":13800,"configured_budget_seconds":14400,"remaining_seconds":600`)
	f.event("s-cancelled", event.Cancel, start,
		`"reason":"wall_clock_exceeded","elapsed_seconds":14400,"configured_budget_seconds":14400,"note":"tool: grep"`)
	f.end(cancelled, session.Cancelled, watchdog.WallClockExceeded)
	f.begin("s-late", "worker-1", 235*time.Minute, session.State{
		WallClock: 14400, Reserve: 600, Warned: 1, WrappedUp: true, Phase: "writing the summary",
	})
	time.Sleep(time.Second)
	f.begin("s-held", "worker-1", 10*time.Minute, session.State{WallClock: 14400, Idle: 300, Holds: 1, Phase: "approval"})
	time.Sleep(time.Second)
	f.begin("s-build", "worker-1", 72*time.Minute, session.State{
		WallClock: 14400, Reserve: 600, Safety: 28800, Idle: 300, NoProgress: 1200, Phase: "tool: go test ./...",
		Spent: []session.Spent{
			{Limit: "tokens", Used: 41_250, Admitted: 2000, Allowed: 200_000, Reserve: 20_000, WarnAt: []float64{0.5, 0.9}},
			{Limit: "cost", Currency: "EUR", Used: 5_120_000, Allowed: 6_400_000, Reserve: 640_000},
			{Limit: "tool_calls", Tool: "bash", Used: 19, Allowed: 20},
		}, MoreSpent: 2,
	})
	time.Sleep(time.Second)
	f.begin("s-other", "worker-3", time.Minute, session.State{})
}

// hashed are the hashes of files, which change with every change of a file.
var hashed = regexp.MustCompile(`&amp;v=\w+`)

// codes are those of the taxonomy that a reader can choose: TestFilters wants each.
var codes = regexp.MustCompile(`(<option>watchdog_\w+</option>\n)+`)

// compare compares what a page has between its frame with a golden file, which for the list has the frame, too.
func compare(t *testing.T, name, got string) {
	t.Helper()
	if name != "list.html" {
		_, got, _ = strings.Cut(got, "<main id=\"main\" tabindex=\"-1\">\n")
		got, _, _ = strings.Cut(got, "</main>")
	}
	got = hashed.ReplaceAllString(got, "&amp;v=HASH")
	got = codes.ReplaceAllString(got, "<option>CODES</option>\n")
	golden.Compare(t, filepath.Join("testdata", name), got)
}

// A sent is a frame.
type sent struct {
	ID   string
	At   time.Time
	Now  int64
	Rows []struct {
		Run, Host, Reason, Said, HTML string
		Live                          bool
	}
	Present            map[string]string
	All, More, Trouble bool
}

// A reader is a browser that is connected. It is a ResponseWriter, too: what a server has for a connection.
type reader struct {
	*testing.T
	cancel context.CancelFunc
	done   chan struct{}

	header http.Header

	mu       sync.Mutex
	status   int
	text     bytes.Buffer
	writes   []time.Time
	stuck    bool // it takes nothing any more
	deadline time.Time
}

// watch connects a reader that has got the present state.
func (f *fixture) watch() *reader {
	f.Helper()
	r := f.join("")
	time.Sleep(time.Second)
	return r
}

// join connects a reader that had a frame before, until the end of the test.
func (f *fixture) join(last string) *reader {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	r := &reader{T: f.T, cancel: cancel, done: make(chan struct{}), header: http.Header{}, status: http.StatusOK}
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/?live", nil)
	request.Header.Set("Last-Event-ID", last)
	p := f.page()
	go func() {
		defer close(r.done)
		p.ServeHTTP(r, request)
	}()
	f.Cleanup(r.leave)
	synctest.Wait()
	return r
}

func (r *reader) Header() http.Header    { return r.header }
func (r *reader) WriteHeader(status int) { r.status = status }
func (r *reader) Flush()                 {}

func (r *reader) SetWriteDeadline(at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = at
	return nil
}

func (r *reader) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stuck {
		until := 24 * time.Hour // for a write without a deadline
		if !r.deadline.IsZero() {
			until = time.Until(r.deadline)
		}
		r.mu.Unlock()
		time.Sleep(until)
		r.mu.Lock()
		return 0, os.ErrDeadlineExceeded
	}
	r.writes = append(r.writes, time.Now())
	return r.text.Write(text)
}

// leave disconnects the reader, and waits for its request to end.
func (r *reader) leave() {
	r.cancel()
	<-r.done
}

// gone reports whether the request of the reader has ended.
func (r *reader) gone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// got is all that was sent to the reader.
func (r *reader) got() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// events are the frames that the reader has got.
func (r *reader) events() (all []sent) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for block := range strings.SplitSeq(strings.TrimSuffix(r.text.String(), "\n\n"), "\n\n") {
		at := r.writes[i]
		i++
		id, data, found := strings.Cut(block, "\ndata: ")
		if !found {
			continue // a comment, or the pause before a reconnect
		}
		require.NotContains(r, data, "\n", "an event is one line of data")
		var one sent
		require.NoError(r, json.Unmarshal([]byte(data), &one))
		one.ID, one.At = strings.TrimPrefix(id, "id: "), at
		all = append(all, one)
	}
	return all
}
