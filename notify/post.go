package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
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

// An answer is what a receiver said to one POST.
type answer struct {
	status int
	err    error         // nil if it took the notice
	rest   time.Duration // nothing is to be sent before that
}

// answerOf judges a status. Its text is not the receiver's.
func answerOf(status int, header http.Header) answer {
	a := answer{status: status}
	if status/100 == 2 {
		return a
	}
	a.err = fmt.Errorf("it answered %s", strings.TrimSpace(strconv.Itoa(status)+" "+http.StatusText(status)))
	if advice := adviceOn(status); advice != "" {
		a.err = fmt.Errorf("%w: %s", a.err, advice)
	}
	a.rest = retryAfter(header.Get("Retry-After"))
	if status == http.StatusGone {
		a.rest = longestPause
	}
	return a
}

// adviceOn says what a person does about a status, if there is something.
func adviceOn(status int) string {
	switch {
	case status/100 == 3:
		return "redirects are not followed; configure the address that it leads to"
	case status == http.StatusGone:
		return "it wants no notices any more; they wait, and one round an hour is tried: correct the address, or remove it"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "see whether it has the same secret"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return "see whether the path of the address is right"
	}
	return ""
}

// retryAfter reads the header of that name: a number of seconds, or a time. It is at most the longest pause.
func retryAfter(value string) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longestPause)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(time.Until(at), 0), longestPause)
}

// failureOf says why there was no answer. An error of a kind that it does not know may repeat what was sent, the path
// of the address included: its type stands for it.
func failureOf(err error, timeout time.Duration) error {
	var timed interface{ Timeout() bool }
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var panicked *bounded.PanicError
	switch {
	case errors.As(err, &timed) && timed.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it did not answer within %v", timeout)
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &network):
		return network
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &panicked):
		return panicked
	case errors.As(err, &plain):
		return errors.New("what is there speaks no TLS; correct the port, or the scheme")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection and answered nothing")
	case errors.Is(err, bounded.ErrExited):
		return bounded.ErrExited
	}
	return fmt.Errorf("the connection failed, with a %T", err)
}
