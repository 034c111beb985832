package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A sent is a frame.
type sent struct {
	ID   string
	At   time.Time
	Now  int64
	Rows []struct {
		Run, Host, Reason, Said, HTML string
		Live                          bool
	}
	Runs                       []string
	Present                    map[string]string
	All, More, Trouble, Others bool
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

// join connects a reader that had a frame before.
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
