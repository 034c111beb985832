package page

import (
	"errors"
	"net/http"
	"time"
)

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

// A stream writes to one reader.
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
