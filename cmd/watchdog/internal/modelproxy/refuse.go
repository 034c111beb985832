package modelproxy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// A refusal is why a call was not forwarded, for the client: in the API's own form of an error, with the status after
// which its clients end at once, and say why. Docs/meter.md has what each does, as make test-clients tries it.
type refusal struct {
	status int
	why    string
	body   any
	again  bool // the client may try again
}

// Why a request is refused that no run refused.
const (
	upgraded = "watchdog: a connection that is upgraded, such as a WebSocket, is not metered; " +
		"have the client use plain requests"
	cutOff     = "watchdog: the request is cut off, or too long to be metered"
	misspelt   = "watchdog: the path is not written as the API has it, and would not be metered"
	redirected = "watchdog: the API answered with a redirect, which leads around the meter; name its own address"
)

// forms are, for each API, how it says that there is no money left, and that something went wrong on the way to it.
// Claude Code sends 400 five times more, with less in it. Codex sends 402, 403 and 413 five times more, and takes 429
// for a quota of OpenAI's; Gemini CLI waits after 429.
var forms = map[API]struct {
	refused       int // the status
	broke, failed string
}{
	Anthropic: {http.StatusPaymentRequired, "billing_error", "api_error"},
	OpenAI:    {http.StatusBadRequest, "insufficient_quota", "server_error"},
	Gemini:    {http.StatusBadRequest, "FAILED_PRECONDITION", "UNAVAILABLE"},
}

func refusalOf(api API, why string) refusal {
	form := forms[api]
	return refusal{status: form.refused, why: why, body: bodyOf(api, form.refused, form.broke, form.broke, why)}
}

func failureOf(api API, why string) refusal {
	const status = http.StatusBadGateway
	return refusal{status: status, why: why, body: bodyOf(api, status, forms[api].failed, nil, why), again: true}
}

// bodyOf is an error in the form of an API. Only OpenAI has a code besides the kind.
func bodyOf(api API, status int, kind string, code any, why string) any {
	said := map[string]any{"message": why}
	switch api {
	case Anthropic:
		said["type"] = kind
		return map[string]any{"type": "error", "error": said}
	case OpenAI:
		said["type"], said["code"], said["param"] = kind, code, nil
	case Gemini:
		said["code"], said["status"] = status, kind
	}
	return map[string]any{"error": said}
}

func (r refusal) write(w http.ResponseWriter) {
	text, err := json.Marshal(r.body)
	if err != nil { // texts and numbers alone
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	if !r.again {
		w.Header().Set("X-Should-Retry", "false")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(append(text, '\n'))
}

// refused returns why the run does not let a call be made, nothing if the error is another.
func refused(err error) (Kind, string) {
	var stop *watchdog.Stop
	switch {
	case errors.As(err, new(*watchdog.Refused)):
		return Limit, "watchdog: " + err.Error()
	case errors.Is(err, watchdoghttp.ErrUnbounded):
		return Unbounded, "watchdog: " + err.Error() + ", with --model-max 'MODEL=INPUT:OUTPUT'"
	case errors.Is(err, watchdoghttp.ErrBusy):
		return Busy, "watchdog: " + err.Error()
	case errors.As(err, &stop):
		return Ended, "watchdog: the run has ended: " + string(stop.Code)
	case errors.Is(err, watchdog.ErrEnded):
		return Ended, "watchdog: the run has ended"
	}
	return "", ""
}

// ownTexts begin the texts of errors that have no type, and no word of the other side.
var ownTexts = []string{
	"tls: ", "x509: ", "stream error: ", "connection error: ", "http2: Transport received ", "http2: client conn ",
}

// causeOf says why a call has no response. The text goes where no text of a call may be, so it is only repeated where
// nothing in it was written by the API.
func causeOf(err error) string {
	text := err.Error()
	own := func(begins string) bool { return strings.HasPrefix(text, begins) }
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return text + "; if you trust it, name the file of its authority in NODE_EXTRA_CA_CERTS"
	case errors.As(err, new(*proxyError)), errors.As(err, new(*tls.CertificateVerificationError)),
		errors.As(err, new(net.Error)), errors.Is(err, http.ErrSchemeMismatch), slices.ContainsFunc(ownTexts, own):
		return text
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended"
	}
	return "the connection broke"
}
