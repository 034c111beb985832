package migrating

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// read has the client ask for the answer, and handles each line of it until its end.
func (api API) read(ctx context.Context, client http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api.URL, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	scanner := bufio.NewScanner(resp.Body)
	for scanner.Scan() {
		if err := api.Decode(scanner.Bytes()).Handle(ctx, func() {}); err != nil {
			return err
		}
	}
	return scanner.Err()
}

//migrating:before

// An idleTransport ends an exchange when the server is silent for the limit, before its header or in its body.
type idleTransport struct {
	base  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (t *idleTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.limit <= 0 {
		return t.base.RoundTrip(req)
	}
	ctx, end := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(t.limit, func() { end(fmt.Errorf("%w: %v", ErrSilent, t.limit)) })
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		err = errors.Join(err, context.Cause(ctx))
		end(nil)
		return nil, err
	}
	resp.Body = &idleBody{ReadCloser: resp.Body, ctx: ctx, end: end, timer: timer, limit: t.limit}
	return resp, nil
}

// An idleBody has its timer run while somebody reads.
type idleBody struct {
	io.ReadCloser
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer
	limit time.Duration
}

// Read implements [io.Reader].
func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(err, context.Cause(b.ctx))
	}
	return n, err
}

// Close implements [io.Closer].
func (b *idleBody) Close() error {
	b.timer.Stop()
	b.end(nil)
	return b.ReadCloser.Close()
}

// RoundTripperBefore reads an agent's answer until its end or until the server is silent for too long.
func RoundTripperBefore(ctx context.Context, api API, limit time.Duration) error {
	client := http.Client{Transport: &idleTransport{base: api.Transport, limit: limit}}
	return api.read(ctx, client)
}

//migrating:after

// RoundTripperAfter reads an agent's answer until its end or until the server is silent for too long.
func RoundTripperAfter(ctx context.Context, api API, limit time.Duration) error {
	client := http.Client{Transport: &watchdoghttp.Transport{Base: api.Transport, Idle: cmp.Or(limit, watchdog.NoLimit)}}
	return api.read(ctx, client)
}

//migrating:end
