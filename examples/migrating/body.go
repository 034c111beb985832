package migrating

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/idle"
)

//migrating:before

// An idleReader ends a context when no chunk came for the limit. What the host does about a chunk has its own limit.
type idleReader struct {
	io.Reader
	limit time.Duration
	end   context.CancelCauseFunc

	mu    sync.Mutex // guards the rest
	doing time.Duration
	timer *time.Timer // nil if the guard is off
}

func newIdleReader(ctx context.Context, limit time.Duration) (context.Context, *idleReader) {
	ctx, end := context.WithCancelCause(ctx)
	r := &idleReader{limit: limit, end: end}
	if limit > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.timer = time.AfterFunc(limit, func() { end(fmt.Errorf("%w: %v", ErrSilent, limit)) })
	}
	return ctx, r
}

func (r *idleReader) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Reset(max(r.limit, r.doing))
	}
}

// around is the reader itself, around a body.
func (r *idleReader) around(body io.Reader) io.Reader {
	r.Reader = body
	return r
}

// Read implements [io.Reader].
func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.reset()
	}
	return n, err
}

// during allows a silence until done is called.
func (r *idleReader) during(silence time.Duration) (done func()) {
	if silence <= 0 {
		silence = 1<<63 - 1
	}
	allow := func(silence time.Duration) {
		r.mu.Lock()
		r.doing = silence
		r.mu.Unlock()
		r.reset()
	}
	allow(silence)
	return func() { allow(0) }
}

func (r *idleReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.end(nil)
}

// BodyBefore reads an agent's answer until its end or until it is silent for too long.
func BodyBefore(ctx context.Context, api API, limit time.Duration) error {
	ctx, guard := newIdleReader(ctx, limit)
	defer guard.stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api.URL, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: api.Transport}).Do(req)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer func() { _ = resp.Body.Close() }()
	scanner := bufio.NewScanner(guard.around(resp.Body))
	handle := func(message Message) error {
		defer guard.during(message.Silence)()
		return message.Handle(ctx, guard.reset)
	}
	for scanner.Scan() {
		if err := handle(api.Decode(scanner.Bytes())); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	return errors.Join(scanner.Err(), context.Cause(ctx))
}

//migrating:after

// BodyAfter reads an agent's answer until its end or until it is silent for too long.
func BodyAfter(ctx context.Context, api API, limit time.Duration) error {
	ctx, timer := idle.WithLimit(ctx, limit)
	defer timer.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api.URL, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: api.Transport}).Do(req)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer func() { _ = resp.Body.Close() }()
	scanner := bufio.NewScanner(idle.NewReader(ctx, resp.Body, nil))
	handle := func(message Message) error {
		defer timer.Widen(message.Silence)()
		return message.Handle(ctx, timer.Alive)
	}
	for scanner.Scan() {
		if err := handle(api.Decode(scanner.Bytes())); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	return errors.Join(scanner.Err(), context.Cause(ctx))
}

//migrating:end
