// Package modelproxy is a proxy on the loopback interface through which a command calls model APIs, so that its calls
// are charged to a run. The command finds it by the variables that its clients read for the base of their requests.
//
// It listens on 127.0.0.1 alone, below a path that nobody can guess, and forwards to the hosts that it was given and to
// no other. It keeps no key, prompt or answer, and logs none; a response passes as it is, chunk by chunk.
package modelproxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// A Proxy forwards the calls of one command. Its methods are safe for concurrent use.
type Proxy struct {
	server *http.Server
	base   string // http://127.0.0.1:PORT/SECRET
	secret string
	to     map[API]upstream
	served chan struct{}
	own    *http.Transport
	end    context.CancelFunc // of the calls
	under  under
	tally  tally
}

// Start begins to serve. Calls are charged by a meter to the run of ctx, and end with ctx. The proxy takes the meter
// over: without a Base it gets a transport of the proxy's own, and without a Logger it tells nobody. Lookup is the
// command's environment: a variable that is set there says where its API is, or which certificates are trusted besides
// the machine's; nil means that none is. The error says which variable is wrong, or that nothing can listen.
func Start(
	ctx context.Context, meter *watchdoghttp.Meter, lookup func(variable string) (string, bool),
) (*Proxy, error) {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	to, err := upstreams(lookup)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for calls of models: %w", err)
	}
	p := &Proxy{secret: rand.Text(), to: to, served: make(chan struct{})}
	p.base = "http://" + listener.Addr().String() + "/" + p.secret
	if meter.Logger == nil {
		meter.Logger = slog.New(slog.DiscardHandler)
	}
	if meter.Base == nil {
		p.own = newTransport(lookup, meter.Logger)
		meter.Base = p.own
	}
	ctx, p.end = context.WithCancel(ctx)
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // a line of it could hold a URL
	p.server = &http.Server{
		Handler: p.handler(meter), ErrorLog: quiet, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(listener)
	}()
	return p, nil
}

// URL returns the base of the requests of an API, for a client that takes it as a flag. It holds what others must not
// know.
func (p *Proxy) URL(api API) string { return p.base + "/" + string(api) }

// Close ends every call, and waits until each is settled and nothing serves any more.
func (p *Proxy) Close() error {
	p.under.shut()
	p.end()
	err := p.server.Close()
	<-p.served
	p.under.all.Wait()
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the proxy of model calls: %w", err)
	}
	return nil
}

type (
	apiKey  struct{}
	callKey struct{} // of a call of a model
)

func (p *Proxy) handler(meter *watchdoghttp.Meter) http.Handler {
	forward := &httputil.ReverseProxy{
		Rewrite: rewrite, ModifyResponse: p.answer, ErrorHandler: p.fail, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), Transport: meter,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		api, to, known := p.route(req.URL)
		if !known || !p.under.begin() {
			http.NotFound(w, req)
			return
		}
		defer p.under.all.Done()
		p.tally.heard.Add(1)
		if watchdoghttp.IsModelCall(req.Method, to.Path) {
			p.tally.calls.Add(1)
			req = req.WithContext(context.WithValue(req.Context(), callKey{}, true))
		}
		if around(req.Method, to.Path) {
			p.refuse(w, Unread, refusalOf(api, misspelt))
			return
		}
		if req.Header.Get("Upgrade") != "" {
			upgrade := refusalOf(api, upgraded)
			upgrade.status = http.StatusUpgradeRequired // clients of WebSockets go on with plain requests then
			upgrade.write(w)
			return
		}
		if !readable(w, req) {
			p.refuse(w, Unread, refusalOf(api, cutOff))
			return
		}
		req.URL = to
		forward.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), apiKey{}, api)))
	})
}

func (p *Proxy) route(u *url.URL) (api API, to *url.URL, known bool) {
	escaped, found := strings.CutPrefix(u.EscapedPath(), "/"+p.secret+"/")
	if !found {
		return "", nil, false
	}
	name, escaped, _ := strings.Cut(escaped, "/")
	upstream, known := p.to[API(name)]
	if !known {
		return "", nil, false
	}
	return API(name), upstream.join("/"+escaped, u.RawQuery), true
}

// rewrite has the request that the handler judged sent as it is.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.Host = ""
	// What is not read is not metered: br and zstd are not. Without it, the transport would ask for gzip and unpack it.
	accepted := "identity"
	if strings.Contains(r.Out.Header.Get("Accept-Encoding"), "gzip") {
		accepted = "gzip"
	}
	r.Out.Header.Set("Accept-Encoding", accepted)
}

// errRedirected keeps a client from following a redirect, around the meter and to a host that nobody named.
var errRedirected = errors.New("the API answered with a redirect")

// answer counts the responses to calls of models, and refuses redirects.
func (p *Proxy) answer(resp *http.Response) error {
	if resp.StatusCode/100 == 3 && resp.Header.Get("Location") != "" {
		return errRedirected
	}
	if resp.Request.Context().Value(callKey{}) != nil {
		p.tally.answered.Add(1)
	}
	return nil
}

// fail answers a call that has no response. What went wrong on the way to the API is the client's to try again.
func (p *Proxy) fail(w http.ResponseWriter, req *http.Request, err error) {
	api, _ := req.Context().Value(apiKey{}).(API)
	kind, why := refused(err)
	if cause := context.Cause(req.Context()); why == "" && cause != nil {
		kind, why = refused(cause)
	}
	switch {
	case kind == Busy:
		busy := failureOf(api, why)
		busy.status = http.StatusServiceUnavailable
		p.refuse(w, kind, busy)
	case why != "":
		p.refuse(w, kind, refusalOf(api, why))
	case errors.Is(err, errRedirected):
		p.refuse(w, Redirected, refusalOf(api, redirected))
	default:
		why = "watchdog: no answer from " + p.to[api].base.Host + ": " + causeOf(err)
		if req.Context().Err() == nil { // the client is still there
			p.tally.missing.add(why)
		}
		failureOf(api, why).write(w)
	}
}

func (p *Proxy) refuse(w http.ResponseWriter, kind Kind, r refusal) {
	p.tally.refused[slices.Index(kinds[:], kind)].add(r.why)
	r.write(w)
}

// longestBody is what the meter reads ahead at most.
const longestBody = 32 << 20

// readable reads the body of a request ahead, for the meter, and reports whether it could.
func readable(w http.ResponseWriter, req *http.Request) bool {
	var body bytes.Buffer
	if req.ContentLength > 0 {
		body.Grow(int(min(req.ContentLength, longestBody)) + bytes.MinRead) // so that it is held once
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, req.Body, longestBody)); err != nil {
		return false
	}
	all := body.Bytes()
	req.ContentLength, req.TransferEncoding = int64(len(all)), nil
	req.GetBody = func() (io.ReadCloser, error) { return held{bytes.NewReader(all), all}, nil }
	req.Body, _ = req.GetBody()
	return true
}

// held is a body in memory, which the meter reads where it lies.
type held struct {
	*bytes.Reader

	all []byte
}

// Bytes returns the whole body.
func (h held) Bytes() []byte { return h.all }

// Close implements [io.Closer].
func (held) Close() error { return nil }

// A lookupFunc returns the value of a variable of the command's environment, and whether it is set.
type lookupFunc func(variable string) (string, bool)

// newTransport returns what calls the APIs as the command would: through its proxy, with the certificates that it
// trusts.
func newTransport(env lookupFunc, logger *slog.Logger) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	t.MaxIdleConnsPerHost = 100
	t.OnProxyConnectResponse = checkProxy
	if roots := trusted(env, logger); roots != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return t
}

// authorities are the variables that name a file of certificates to trust.
var authorities = []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"}

// trusted returns what the machine trusts, with the certificates that the environment names; nil if it names none. A
// file that cannot be read is logged and not an error: its clients say so, too, and go on.
func trusted(env lookupFunc, logger *slog.Logger) (roots *x509.CertPool) {
	for _, name := range authorities {
		path, _ := env(name)
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err == nil && roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil {
				roots, err = x509.NewCertPool(), nil // the machine has none
			}
		}
		if err == nil && !roots.AppendCertsFromPEM(text) {
			err = errors.New("it has no certificate in PEM")
		}
		if err != nil {
			logger.Warn("certificates are not read", slog.String("variable", name), slog.Any("error", err))
		}
	}
	return roots
}

// A proxyError is why the user's proxy did not connect to an API. It has nothing of the proxy's address but the host.
type proxyError struct {
	host   string
	status int
}

// Error names the proxy and its status.
func (e *proxyError) Error() string {
	text := fmt.Sprintf("the proxy %s refused the connection: %d %s", e.host, e.status, http.StatusText(e.status))
	return strings.TrimSpace(text)
}

// checkProxy has the error of a refused CONNECT say who refused it.
func checkProxy(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{proxy.Host, answer.StatusCode}
}
