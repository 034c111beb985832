package page

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

// The pace of the updates.
const (
	// lookPause is the time from one look at the sessions to the next, unless a reader comes.
	lookPause = 500 * time.Millisecond
	// shortestPause is the time between two looks at least, and so between two frames.
	shortestPause = 250 * time.Millisecond
	// A look that takes long is followed by a pause that is pauseFactor times as long, up to longestPause: at most a
	// twentieth of the time is spent on looks.
	pauseFactor  = 19
	longestPause = 5 * time.Second
)

// maxQueuedFrames is how many frames wait for a reader before it is dropped. They are shared with the other readers.
const maxQueuedFrames = 4

// A live keeps readers up to date. Its goroutines run only while it has any.
type live struct {
	page    *Page
	started string // distinguishes its frames from those before a restart
	wake    chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	readers map[*reader]struct{}
	stop    context.CancelFunc // ends the goroutines; nil while there are none
	closed  bool
	frames  int // that were sent
}

// A reader is one browser that looks at a page. The mutex of its live guards it.
type reader struct {
	frames chan []byte // closed when the reader is dropped
	fresh  bool        // it was told nothing yet
	last   string      // the ID of the last frame that it had before it connected again
}

func newLive(p *Page) *live {
	return &live{
		page: p, started: record.NewRunID()[:8], wake: make(chan struct{}, 1), readers: map[*reader]struct{}{},
	}
}

var (
	errFull   = errors.New("this page has as many readers as it may have; it is served without updates")
	errClosed = errors.New("this page is closed; it is served without updates")
)

// join adds a reader. The first one starts the goroutines.
func (l *live) join(last string) (*reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errClosed
	case len(l.readers) >= l.page.cfg.MaxReaders:
		return nil, errFull
	}
	r := &reader{frames: make(chan []byte, maxQueuedFrames), fresh: true, last: last}
	l.readers[r] = struct{}{}
	if l.stop == nil {
		l.start()
	}
	select {
	case l.wake <- struct{}{}: // the next look comes as soon as it may
	default:
	}
	return r, nil
}

// start starts the goroutines. The caller holds the mutex.
func (l *live) start() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.frames++ // what came meanwhile was sent to nobody
	l.running.Go(func() { l.run(ctx) })
}

// leave removes a reader. The last one ends the goroutines.
func (l *live) leave(r *reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(r)
}

// drop removes a reader. The caller holds the mutex.
func (l *live) drop(r *reader) {
	if _, there := l.readers[r]; !there {
		return
	}
	delete(l.readers, r)
	close(r.frames)
	if len(l.readers) == 0 {
		l.stop()
		l.stop = nil
	}
}

func (l *live) close() {
	l.mu.Lock()
	l.closed = true
	for r := range l.readers {
		l.drop(r)
	}
	l.mu.Unlock()
	l.running.Wait()
}

func (l *live) run(ctx context.Context) {
	seen := &looker{page: l.page, seen: map[string]seen{}, first: true}
	for ctx.Err() == nil {
		began := time.Now()
		fresh := l.begin(ctx)
		changes := seen.look(ctx)
		l.send(ctx, fresh, changes, seen)
		l.pause(ctx, time.Since(began))
	}
}

// begin returns the readers that were told nothing yet. Those that come after are for the next look.
func (l *live) begin(ctx context.Context) (fresh []*reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return nil // it is for the goroutine after this one
	}
	for r := range l.readers {
		if r.fresh {
			fresh = append(fresh, r)
		}
	}
	return fresh
}

// send sends the present state to those who were told nothing yet, and what has changed to all others. Each is made
// once.
func (l *live) send(ctx context.Context, fresh []*reader, changes frame, seen *looker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if !changes.empty() {
		l.frames++
		text := changes.event(l.frameID())
		for r := range l.readers {
			if !r.fresh {
				l.put(r, text)
			}
		}
	}
	var present []byte
	for _, r := range fresh {
		r.fresh = false
		if r.last == l.frameID() && !changes.Trouble {
			continue // it has seen all of it
		}
		if present == nil {
			all := frame{Now: changes.Now, All: true, Present: seen.versions(), More: seen.more, Trouble: seen.down}
			present = all.event(l.frameID())
		}
		l.put(r, present)
	}
}

// frameID names the last frame that was sent. The caller holds the mutex.
func (l *live) frameID() string { return l.started + "-" + strconv.Itoa(l.frames) }

// put puts a frame in line for a reader, and drops one that does not take them. The caller holds the mutex.
func (l *live) put(r *reader, text []byte) {
	if _, there := l.readers[r]; !there {
		return
	}
	select {
	case r.frames <- text:
	default:
		l.drop(r)
	}
}

// pause waits until the next look: shortly if a reader comes, and longer if looks take long.
func (l *live) pause(ctx context.Context, took time.Duration) {
	least := min(max(took*pauseFactor, shortestPause), longestPause)
	if !wait(ctx, least) {
		return
	}
	timer := time.NewTimer(lookPause - least)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.wake:
	case <-ctx.Done():
	}
}

// wait waits, and reports whether ctx has not ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

const (
	// writeTimeout is how long a reader may take for a frame.
	writeTimeout = 5 * time.Second
	// heartbeat is after how long without a frame a reader is sent an empty comment, so that one who is gone is noticed.
	heartbeat = 15 * time.Second
)

// serve streams the updates to one reader as server-sent events.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	reader, err := l.join(r.Header.Get("Last-Event-ID"))
	if err != nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer l.leave(reader)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // it keeps the deadline of the last write
	}
	out := stream{w, http.NewResponseController(w)}
	if err := out.send(nil); errors.Is(err, http.ErrNotSupported) {
		http.Error(w, "what this page is wrapped in cannot flush; it is served without updates", http.StatusNotImplemented)
		return
	}
	err = out.send([]byte("retry: 2000\n\n"))
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			err = out.send([]byte(":\n\n"))
		case text, open := <-reader.frames:
			if !open {
				return
			}
			beat.Reset(heartbeat)
			err = out.send(text)
		}
	}
}

type stream struct {
	w http.ResponseWriter
	*http.ResponseController
}

// send writes at once, without a text only the header, and gives up a reader that is too slow. The deadline takes the
// place of the server's, which is that of a whole response.
func (s stream) send(text []byte) error {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if len(text) > 0 {
		if _, err := s.w.Write(text); err != nil {
			return err
		}
	}
	return s.Flush()
}
