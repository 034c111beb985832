package notify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

// maxAnswer is how much of an answer's body is read, for the connection to be used again.
const maxAnswer = 4 << 10

// maxHeader is how long its header may be.
const maxHeader = 64 << 10

// newTransport returns the transport of a sender, and again as own if it is not the host's. No redirect is followed,
// because no client is around it.
func (c Config) newTransport() (transport http.RoundTripper, own *http.Transport) {
	if c.Transport != nil {
		return c.Transport, nil
	}
	own = &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       (&net.Dialer{Timeout: c.Timeout}).DialContext,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: c.Parallel, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: c.Timeout, MaxResponseHeaderBytes: maxHeader,
	}
	return own, own
}

// post sends a message, and returns what the receiver said. It does not wait longer than the timeout.
func (s *Sender) post(ctx context.Context, m message) answer {
	a, err := bounded.Within(ctx, s.cfg.Timeout, func(ctx context.Context) (answer, error) { return s.exchange(ctx, m) })
	if err != nil {
		a = answer{err: failureOf(err, s.cfg.Timeout)}
	}
	if a.err != nil {
		a.err = fmt.Errorf("webhook at %s: %w", s.target.Host, a.err)
	}
	return a
}

func (s *Sender) exchange(ctx context.Context, m message) (answer, error) {
	body := m.body()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "watchdog-notify")
	sign(request.Header, s.keys, headerID(m.Data.ID), time.Now(), body)
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	// The status has said it: a body that stalls or breaks changes nothing.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer))
	return answerOf(response.StatusCode, response.Header), nil
}
